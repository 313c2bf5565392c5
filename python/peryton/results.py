"""What a SQL statement gives back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peryton._core import Rows

Row = tuple[Any, ...]

Sequence.register(Rows)

__all__ = ["Row", "Rows"]
