"""Telling SQL from Redis commands, and finding where each ends."""

from __future__ import annotations

from peryton._calls import pieces

# First words of SQL statements. SELECT with a number alone chooses a keyspace, as in Redis.
_VERBS = """
select insert update delete replace with values create drop alter explain
show describe call begin commit rollback savepoint release
"""
SQL_VERBS = frozenset(_VERBS.split())


def is_sql(text: str) -> bool:
    """Whether a line begins a SQL statement rather than a Redis command."""
    words = text.replace(";", " ").split()
    if not words or words[0].lower() not in SQL_VERBS:
        return False
    if words[0].lower() == "call":
        # With a bracket it is the statement, else the command.
        return "(" in "".join(words[1:2]) or "".join(words[2:3]).startswith("(")
    return not (words[0].lower() == "select" and len(words) == 2 and words[1].isdigit())


def is_complete(text: str) -> bool:
    """Whether SQL text ends with a semicolon outside quotes and comments."""
    # A quoted piece may hold a semicolon, a comment counts for nothing.
    parts = (piece if is_code else "" if piece.startswith(("--", "/*")) else "?" for piece, is_code in pieces(text))
    return "".join(parts).rstrip().endswith(";")


def split_statements(text: str) -> list[str]:
    """SQL statements separated by semicolons, without them."""
    statements, current = [], ""
    for piece, is_code in pieces(text):
        if not is_code:
            current += piece
            continue
        first, *others = piece.split(";")
        current += first
        for other in others:
            statements.append(current)
            current = other
    statements.append(current)
    return [statement.strip() for statement in statements if statement.strip()]


class QuoteError(ValueError):
    """A quote in a command is not closed, or text follows a closing quote."""


def split_arguments(line: str) -> list[bytes]:
    r"""A Redis command's arguments, quoted as redis-cli does: "a\n\x00" with escapes, 'a' with \' only."""
    arguments, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        argument, at = _argument(line, at)
        arguments.append(argument)
    return arguments


_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}


def _argument(line: str, at: int) -> tuple[bytes, int]:
    out = bytearray()
    while at < len(line) and not line[at].isspace():
        quote = line[at]
        if quote not in "\"'":
            out += line[at].encode("utf-8", "surrogateescape")
            at += 1
            continue
        at += 1
        while True:
            if at >= len(line):
                raise QuoteError(f"a {quote} is not closed")
            if line[at] == quote:
                break
            piece, at = _escaped(line, at, quote)
            out += piece
        at += 1
        if at < len(line) and not line[at].isspace():
            raise QuoteError(f"a space must follow the closing {quote}")
    return bytes(out), at


def _escaped(line: str, at: int, quote: str) -> tuple[bytes, int]:
    """One character inside quotes, and where the next begins."""
    if line[at] != "\\" or at + 1 >= len(line):
        return line[at].encode("utf-8", "surrogateescape"), at + 1
    after = line[at + 1]
    if quote == "'":
        return (b"'", at + 2) if after == "'" else (b"\\", at + 1)
    if after == "x" and len(digits := line[at + 2 : at + 4]) == 2:
        try:
            return bytes([int(digits, 16)]), at + 4
        except ValueError:
            pass
    return _ESCAPES.get(after, after.encode("utf-8", "surrogateescape")), at + 2
