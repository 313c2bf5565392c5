"""The layer test: in the core, imports go down only; the doors see nothing but the facade; no sockets, no Python below.

The order is that of docs/architecture.md. A module may use those before it in `ORDER`, itself, and nothing else.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ROOT / "crates/core/src"

_LAYERS = """
limits error
env directory ds memory meter reply value
table index engine keyspace
wal txn recovery session
sql procedure
session pubsub config journal readers slowlog state
command store
"""
ORDER = _LAYERS.split()

# What server and python may use: the store, what goes in and comes out of it, and the text of numbers.
FACADE = {"store", "session", "reply", "error", "limits", "env", "config", "memory", "ds::number"}

FORBIDDEN_IN_CORE = re.compile(r"\b(pyo3|mio|TcpStream|TcpListener|UdpSocket|UnixStream|UnixListener|std::net)\b")


def code_of(text: str) -> str:
    """Source without comments and without its tests, which may use anything."""
    text = re.sub(r"//[^\n]*", "", text)
    return re.split(r"#\[cfg\((?:all\()?test\b[^\n]*\n\s*(?:pub )?mod \w+ *\{", text)[0]


def is_test_file(path: Path) -> bool:
    return path.stem in ("tests", "model_tests") or path.stem.endswith("_tests")


def group_heads(text: str, start: int) -> list[str]:
    """The first names inside the braces that open at `start`: of `{a::B, c::{D, E}}`, a and c."""
    heads, depth, name = [], 0, ""
    for char in text[start:]:
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
        if depth == 0 or (depth == 1 and char == ","):
            heads.append(name.strip(" \n{}"))
            name = ""
            if depth == 0:
                break
        elif depth == 1:
            name += char
    return [re.split(r"\W", head)[0] for head in heads if head]


def used_modules(path: str, text: str) -> set[str]:
    """The top-level modules that a file of the core names, through `crate::` or enough `super::`."""
    code = code_of(text)
    # A file's path inside its crate: `super` steps over it.
    parts = [part for part in path.removesuffix(".rs").split("/") if part != "mod"]
    prefixes = ["crate::", "super::" * len(parts)]
    used: set[str] = set()
    for prefix in prefixes:
        for match in re.finditer(rf"(?<![\w:]){prefix}(?!super)", code):
            if code[match.end() : match.end() + 1] == "{":
                used.update(group_heads(code, match.end()))
            elif name := re.match(r"\w+", code[match.end() :]):
                used.add(name.group())
    return used


def layer_violations(sources: dict[str, str]) -> list[str]:
    """What is wrong in the core's sources, by path relative to its `src`."""
    found = []
    for path, text in sources.items():
        module = path.split("/")[0].removesuffix(".rs")
        if module == "lib":
            continue
        if module not in ORDER:
            found.append(f"{path}: the module {module} has no place in the order")
            continue
        for used in used_modules(path, text):
            if used in ORDER and ORDER.index(used) > ORDER.index(module):
                found.append(f"{path}: {module} may not use {used}, which lies above it")
        for match in FORBIDDEN_IN_CORE.finditer(code_of(text)):
            found.append(f"{path}: the core knows no sockets and no Python, but names {match.group()}")
    return found


def facade_violations(sources: dict[str, str]) -> list[str]:
    """Where a door reaches past the facade."""
    found = []
    for path, text in sources.items():
        code = code_of(text)
        for match in re.finditer(r"\bperyton_core::", code):
            rest = code[match.end() :]
            heads = group_heads(rest, 0) if rest.startswith("{") else re.findall(r"^\w+(?:::\w+)?", rest)
            for head in heads:
                module = head.split("::")[0]
                if module not in FACADE and head not in FACADE:
                    found.append(f"{path}: {module} is not part of the facade")
    return found


def sources_under(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.rs") if not is_test_file(p)}


def test_core_imports_go_down_only():
    assert layer_violations(sources_under(CORE)) == []


def test_doors_see_only_the_facade():
    for crate in ("server", "python"):
        assert facade_violations(sources_under(ROOT / "crates" / crate / "src")) == []


def test_core_depends_on_no_door():
    manifest = (ROOT / "crates/core/Cargo.toml").read_text()
    assert not re.search(r"^(pyo3|mio|tokio|peryton-server|peryton-python)\b", manifest, re.MULTILINE)


def test_only_the_python_crate_knows_python():
    assert "pyo3" not in (ROOT / "crates/server/Cargo.toml").read_text()


def test_the_check_sees_what_it_should():
    bad = {
        "ds/dict.rs": "use crate::keyspace::Database;",
        "value/set.rs": "use crate::{ds::intset::IntSet, command::{dispatch, table}};\n",
        "keyspace/mod.rs": "use super::store::Store;",
        "keyspace/entry.rs": "fn f() { super::super::sql::run() }",
        "wal/mod.rs": "use std::net::TcpStream;",
        "nowhere.rs": "",
    }
    assert sorted(layer_violations(bad)) == [
        "ds/dict.rs: ds may not use keyspace, which lies above it",
        "keyspace/entry.rs: keyspace may not use sql, which lies above it",
        "keyspace/mod.rs: keyspace may not use store, which lies above it",
        "nowhere.rs: the module nowhere has no place in the order",
        "value/set.rs: value may not use command, which lies above it",
        "wal/mod.rs: the core knows no sockets and no Python, but names TcpStream",
        "wal/mod.rs: the core knows no sockets and no Python, but names std::net",
    ]


def test_the_check_lets_pass_what_it_should():
    good = {
        "ds/dict.rs": "// use crate::store\nuse crate::limits::X;\nuse super::glob;\n",
        "command/set.rs": "use crate::{value, keyspace::{Database, Wants}};\nuse super::context::Context;",
        "env.rs": "fn f() {}\n#[cfg(test)]\nmod tests {\n use crate::store::Store; }",
    }
    assert layer_violations(good) == []
    assert facade_violations({"x.rs": "use peryton_core::keyspace::K;"}) == ["x.rs: keyspace is not part of the facade"]
    assert facade_violations({"x.rs": "use peryton_core::{store::Store, reply::Reply};"}) == []
