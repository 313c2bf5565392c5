"""Writes docs/commands.md from the command table: `python tools/reference.py`; a test fails when it is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peryton

TARGET = Path(__file__).parent.parent / "docs" / "commands.md"

HEAD = """# Commands

Made by `tools/reference.py` from the command table, which also answers COMMAND DOCS.
Names, arguments and replies are Redis 7's where Redis has the command; `peryton` marks our own.

"""


def synopsis(arguments: list[dict[bytes, Any]]) -> str:
    """Arguments in the notation of manual pages."""
    return " ".join(one(argument) for argument in arguments)


def one(argument: dict[bytes, Any]) -> str:
    """One argument: its token, its name or its parts, and the marks of optional and repeated."""
    kind, token = argument[b"type"], argument.get(b"token", b"").decode()
    parts = argument.get(b"arguments", [])
    if kind == b"oneof":
        text = " | ".join(one(part) for part in parts)
    elif kind == b"block":
        text = synopsis(parts)
    elif kind == b"pure-token":
        text = ""
    else:
        text = argument[b"name"].decode()
    text = f"{token} {text}".strip()
    flags = {str(flag.decode() if isinstance(flag, bytes) else flag) for flag in argument.get(b"flags", [])}
    if "multiple" in flags:
        text = f"{text} [{text} ...]"
    return f"[{text}]" if "optional" in flags else text


def rows(docs: dict[bytes, dict[bytes, Any]]) -> list[tuple[str, str, str, str, str]]:
    """Group, name, synopsis, first version and summary of every command and subcommand."""
    found = []
    for name, doc in docs.items():
        subcommands = doc.get(b"subcommands", {})
        for each, about in subcommands.items() if subcommands else [(name, doc)]:
            words = each.decode().replace("|", " ").upper()
            usage = synopsis(about.get(b"arguments", []))
            found.append((doc[b"group"].decode(), words, usage, about[b"since"].decode(), about[b"summary"].decode()))
    return sorted(found)


def reference() -> str:
    """The whole document."""
    with peryton.open() as db:
        found = rows(db.command("COMMAND", "DOCS"))
    lines, group = [HEAD], ""
    for family, name, usage, since, summary in found:
        if family != group:
            group = family
            lines.append(f"\n## {family}\n\n| command | since | what it does |\n|---|---|---|\n")
        call = f"{name} {usage}".strip().replace("|", "\\|")
        lines.append(f"| `{call}` | {since} | {summary} |\n")
    return "".join(lines)


if __name__ == "__main__":
    TARGET.write_text(reference())
