"""The command line of Peryton; `main` is where it begins."""

from peryton.cli.main import main

__all__ = ["main"]
