"""The order of the demo's steps."""

from __future__ import annotations


def run(*, rows: int | None, keep: bool) -> None:
    """Tells the whole story."""
    raise NotImplementedError
