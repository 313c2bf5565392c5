"""What a SQL statement gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

Row = tuple[Any, ...]


class Rows(Sequence[Row]):
    """The rows of a statement as a sequence of tuples, with their column names.

    A statement that returns no rows (INSERT, CREATE TABLE, ...) gives an empty sequence whose `rowcount` is the number
    of rows it changed.
    """

    __slots__ = ("_rows", "columns", "rowcount")

    def __init__(self, columns: tuple[str, ...], rows: list[Row], rowcount: int) -> None:
        self.columns = columns
        self._rows = rows
        self.rowcount = rowcount

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Rows):
            return self.columns == other.columns and self._rows == other._rows and self.rowcount == other.rowcount
        if isinstance(other, list):
            return self._rows == other
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if not self.columns:
            return f"<Rows: {self.rowcount} changed>"
        return f"<Rows: {len(self._rows)} of ({', '.join(self.columns)})>"

    def dicts(self) -> list[dict[str, Any]]:
        """The rows as dictionaries from column name to value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self._rows]

    def one(self) -> Row:
        """The only row; ValueError unless there is exactly one."""
        if len(self._rows) != 1:
            raise ValueError(f"expected one row, got {len(self._rows)}")
        return self._rows[0]

    def scalar(self) -> Any:
        """The first value of the first row, or None when there is no row."""
        return self._rows[0][0] if self._rows else None

    def column(self, name: str | int = 0) -> list[Any]:
        """One column's values, by name or position."""
        index = name if isinstance(name, int) else self.columns.index(name)
        return [row[index] for row in self._rows]
