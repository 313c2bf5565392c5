"""SQLite's sqllogictest files, embedded and through SQL on a server; they are read where they lie.

`PERYTON_SQLLOGICTEST` names another folder of such files, for the whole suite. In the short form at most `SHARE`
queries of a file run, spread over it, with all of its other statements; `PERYTON_LONG=1` runs everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peryton
from tests.sql import sqllogictest
from tests.sql.sqllogictest_exceptions import excuse

FOLDER = Path(os.environ.get("PERYTON_SQLLOGICTEST", Path(__file__).parents[3] / "shared/data/sqllogictest"))
FILES = sorted(path for path in FOLDER.rglob("*.test*") if path.is_file()) if FOLDER.is_dir() else []
LONG = bool(os.environ.get("PERYTON_LONG"))
SHARE = None if LONG else 400
"""Queries of a file that run."""


@pytest.fixture(params=["embedded", "server"])
def ask(request: pytest.FixtureRequest) -> Iterator[Any]:
    with peryton.open() as store:
        if request.param == "embedded":
            yield store.sql
            return
        server = store.serve()
        with peryton.connect(f"peryton://127.0.0.1:{server.port}") as client:
            yield client.sql


@pytest.mark.skipif(not FILES, reason=f"there are no sqllogictest files in {FOLDER}")
@pytest.mark.timeout(3600 if LONG else 120)
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)).partition(".")[0])
def test_every_record_gives_what_it_must(path: Path, ask: Any) -> None:
    name = str(path.relative_to(FOLDER)).partition(".")[0]
    report = sqllogictest.run(path, ask, lambda record: excuse(name, record) is not None, SHARE)
    shown = "\n".join(f"line {record.line}: {why}\n  {record.text[:400]}" for record, why in report.wrong[:10])
    assert not report.wrong, f"{len(report.wrong)} of {report.run} records of {name}:\n{shown}"
