"""The stub of the compiled module says what the module has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

STUB = Path(__file__).parent.parent / "python/peryton/_core.pyi"


def stubtest(stub: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """mypy's stubtest over a copy of the package that has `stub` as its `_core.pyi`."""
    package = tmp_path / "peryton"
    shutil.copytree(STUB.parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(stub, package / "_core.pyi")
    shutil.copy(next(STUB.parent.glob("_core*.so")), package)
    command = [sys.executable, "-m", "mypy.stubtest", "peryton._core"]
    cache = str(STUB.parents[2] / ".mypy_cache/stubtest")
    environment = {"MYPYPATH": str(tmp_path), "PYTHONPATH": str(tmp_path), "MYPY_CACHE_DIR": cache}
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)


def test_the_stub_matches_the_module(tmp_path: Path) -> None:
    done = stubtest(STUB, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_sees_what_it_should(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pyi"
    bad.write_text(STUB.read_text().replace("    def close(self)", "    def shut(self)"))
    done = stubtest(bad, tmp_path)
    assert done.returncode == 1
    assert "Store.shut is not present at runtime" in done.stdout
