"""Reads and runs the files of SQLite's sqllogictest suite: records of a statement or a query with what it must give.

The rules are those of the suite's own runner for the engine `sqlite`: which records count for that engine, how values
are written, when a result is compared as a hash, and that queries of one label give one result.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import peryton

ENGINE = "sqlite"
HASHED = re.compile(r"^(\d+) values hashing to ([0-9a-f]{32})$")
NUMBER = re.compile(r"^\s*[+-]?\d+")
UNPRINTABLE = re.compile(r"[^ -~]")

Ask = Callable[[str], peryton.Rows]


@dataclass(frozen=True)
class Record:
    """A statement or a query of a file."""

    line: int
    text: str
    """What the store is asked."""
    fails: bool = False
    """It must be refused."""
    types: str | None = None
    """A letter for each column of a query: T, I or R; None for a statement."""
    sort: str = "nosort"
    label: str | None = None
    expected: tuple[str, ...] = ()


@dataclass
class Report:
    """What came of a file."""

    run: int = 0
    wrong: list[tuple[Record, str]] = field(default_factory=list)
    excused: int = 0


def records(path: Path) -> Iterator[Record]:
    """The records of a file that are meant for the engine, up to a `halt`."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = content.decode().splitlines()
    at = 0
    while at < len(lines):
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith("#")):
            at += 1
        start = at
        while at < len(lines) and lines[at].strip():
            at += 1
        record = _record(lines[start:at], start + 1)
        if record == "halt":
            return
        if isinstance(record, Record):
            yield record


def _record(lines: list[str], number: int) -> Record | str | None:
    meant = True
    while lines:
        words = lines[0].split("#")[0].split()
        if words and words[0] in ("skipif", "onlyif"):
            meant = meant and (words[1] == ENGINE) == (words[0] == "onlyif")
        elif words:
            break
        lines, number = lines[1:], number + 1
    if not lines or not meant:
        return None
    match words:
        case ["halt", *_]:
            return "halt"
        case ["statement", outcome, *_]:
            return Record(number, "\n".join(lines[1:]), fails=outcome == "error")
        case ["query", types, *rest]:
            split = next((i for i, line in enumerate(lines) if line == "----"), len(lines))
            sort = rest[0] if rest else "nosort"
            label = rest[1] if len(rest) > 1 else None
            text = "\n".join(lines[1:split])
            return Record(number, text, types=types, sort=sort, label=label, expected=tuple(lines[split + 1 :]))
        case ["hash-threshold", *_]:
            return None
    raise ValueError(f"line {number}: what is {lines[0]!r}?")


def run(path: Path, ask: Ask, excuse: Callable[[Record], bool], share: int | None = None) -> Report:
    """Runs a file; of its queries at most about `share`, spread over all of them."""
    report = Report()
    labels: dict[str, str] = {}
    listed = list(records(path))
    queries = sum(record.types is not None for record in listed)
    step = max(1, queries // share) if share else 1
    seen = 0
    for record in listed:
        if record.types is not None:
            seen += 1
            if seen % step:
                continue
        if excuse(record):
            report.excused += 1
            continue
        report.run += 1
        complaint = _statement(record, ask) if record.types is None else _query(record, ask, labels)
        if complaint is not None:
            report.wrong.append((record, complaint))
    return report


def _statement(record: Record, ask: Ask) -> str | None:
    try:
        # A record may hold several statements; Peryton takes one at a time.
        for text in record.text.split(";\n"):
            ask(text)
    except peryton.InternalError as error:
        return str(error)
    except peryton.ReplyError as error:
        return None if record.fails else str(error)
    return "was not refused" if record.fails else None


def _query(record: Record, ask: Ask, labels: dict[str, str]) -> str | None:
    try:
        rows = ask(record.text)
    except peryton.InternalError as error:
        return str(error)
    except peryton.ReplyError as error:
        # The suite's runner takes a query that fails while it runs ("integer overflow") for one without rows.
        return str(error) if record.expected or "overflow" not in str(error) else None
    types = record.types or ""
    if len(rows.columns) != len(types):
        return f"{len(rows.columns)} columns instead of {len(types)}"
    values = _sorted([[_written(value, kind) for value, kind in zip(row, types)] for row in rows], record.sort)
    digest = _digest(values)
    if record.label is not None and labels.setdefault(record.label, digest) != digest:
        return f"not the result of the other queries labelled {record.label}"
    return _differs(values, digest, record.expected)


def _differs(values: list[str], digest: str, expected: tuple[str, ...]) -> str | None:
    hashed = HASHED.match(expected[0]) if len(expected) == 1 else None
    same = expected == tuple(values) if hashed is None else hashed.groups() == (str(len(values)), digest)
    return None if same else f"expected {_short(expected)}, got {_short(values)}"


def _short(values: Any) -> str:
    return f"{list(values[:12])}{' ...' if len(values) > 12 else ''} ({len(values)})"


def _digest(values: list[str]) -> str:
    return hashlib.md5("".join(value + "\n" for value in values).encode()).hexdigest()


def _sorted(rows: list[list[str]], sort: str) -> list[str]:
    if sort == "rowsort":
        rows.sort()
    values = [value for row in rows for value in row]
    if sort == "valuesort":
        values.sort()
    return values


def _written(value: Any, kind: str) -> str:
    if value is None:
        return "NULL"
    if kind == "I":
        return str(_integer(value))
    if kind == "R":
        return _decimal(_real(value))
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else _text(value)
    return UNPRINTABLE.sub("@", text) if text else "(empty)"


def _decimal(value: float) -> str:
    """Three places, and of a large number the first 16 digits, as SQLite's own printf writes it."""
    if abs(value) < 1e16 or math.isinf(value):
        return f"{value:.3f}"
    digits, exponent = f"{value:.15e}".replace(".", "").split("e")
    return digits + "0" * (int(exponent) - 15) + ".000"


def _text(value: Any) -> str:
    # SQLite writes reals with 15 digits, and whole ones with ".0".
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.15g}"
    return text if set(text) & set(".eni") else f"{text}.0"


def _integer(value: Any) -> int:
    if isinstance(value, (int, float)):
        return max(-(2**63), min(2**63 - 1, int(value)))
    found = NUMBER.match(value if isinstance(value, str) else value.decode("latin-1"))
    return int(found[0]) if found else 0


def _real(value: Any) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    found = re.match(r"^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", value, re.IGNORECASE)
    return float(found[0]) if found else 0.0
