"""`python -m peryton.bench`."""

from peryton.bench.cli import bench

bench(prog_name="peryton bench")
