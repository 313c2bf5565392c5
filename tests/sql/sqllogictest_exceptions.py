"""The records of the sqllogictest suite on which Peryton differs on purpose, each with the reason."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.sql.sqllogictest import Record


class Difference(NamedTuple):
    """Records that are not run."""

    file: str
    """A pattern for the file's name."""
    text: str
    """A pattern for something in its text or its expected values."""
    reason: str


LENGTH = "VARCHAR(16) is a limit here: Peryton refuses the longer text that SQLite stores"
TRIGGER = "triggers are written in Lua, not in SQL, and come with the procedures"

DIFFERENCES = [
    Difference(r"evidence/slt_lang_replace", r"insert or replace", LENGTH),
    Difference(r"evidence/slt_lang_(create|drop)trigger", r"^(CREATE|DROP) TRIGGER ", TRIGGER),
]


def excuse(file: str, record: Record) -> str | None:
    """Why a record is not run; None when it is."""
    text = "\n".join([record.text, *record.expected])
    found = (d.reason for d in DIFFERENCES if re.fullmatch(d.file, file) and re.search(d.text, text))
    return next(found, None)
