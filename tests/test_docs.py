"""The documents keep their word: README's examples run, and every command is documented."""

from __future__ import annotations

import doctest
import re
import runpy
from pathlib import Path
from typing import Any

import peryton

ROOT = Path(__file__).parent.parent


def failures(text: str, name: str) -> int:
    """How many of a document's examples do not give what it says."""
    blocks = re.findall(r"^```pycon\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name, name, 0)
    assert test.examples, f"{name} has no examples"
    return doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test).failed


def test_the_readme_s_examples_run() -> None:
    assert failures((ROOT / "README.md").read_text(), "README.md") == 0


def test_the_check_of_examples_sees_a_wrong_one() -> None:
    assert failures("```pycon\n>>> 1 + 1\n3\n\n```\n", "bad") == 1


def undocumented(docs: dict[bytes, dict[bytes, Any]], names: set[bytes]) -> list[bytes]:
    """Commands without a summary, a group and the version that brought them; subcommands stand in their command's."""
    docs = docs | {name: doc for command in docs.values() for name, doc in command.get(b"subcommands", {}).items()}
    wanted = {b"summary", b"since", b"group"}
    return sorted(name for name in names if not wanted <= {f for f, text in docs.get(name, {}).items() if text})


def test_every_command_is_documented() -> None:
    with peryton.open() as db:
        names = set(db.command("COMMAND", "LIST"))
        assert len(names) > 100
        assert undocumented(db.command("COMMAND", "DOCS"), names) == []


def test_the_reference_is_fresh() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "reference.py"))["reference"]()

    assert (ROOT / "docs" / "commands.md").read_text() == made, "run `make docs`"


def test_the_check_of_commands_sees_a_bare_one() -> None:
    docs: dict[bytes, dict[bytes, Any]] = {
        b"get": {b"summary": b"x", b"since": b"1", b"group": b"string"},
        b"new": {},
    }
    assert undocumented(docs, {b"get", b"new"}) == [b"new"]
