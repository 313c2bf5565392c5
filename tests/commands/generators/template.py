"""The little language in which the generators write commands down.

It is the notation of Redis's own command reference, a line each, after a weight::

    6 SET key value {[NX|XX] [GET] [EX seconds|PX millis|KEEPTTL]}

=================  ==========================================================
``SET``, ``'set``  a literal: any word that does not start with a lower case letter, or
                   that stands after an apostrophe
``key``            an argument (or several) drawn by the method of that name of `Values`
``@``              the key drawn last, in this step
``[a|b]``          left out, or one of the alternatives
``<a|b>``          one of the alternatives
``{a b c}``        the parts, in any order
``(a b)*``         the group one to four times; ``key*`` repeats one word
``;``              the next command of the same step
``!``              first of a line: never mutated, since a wrong form could block,
                   take gigabytes or expire in the middle of a sequence
=================  ==========================================================

A *step* is one or more commands that only make sense together, such as SPOP
followed by the deletion of a set that is no longer the same on both servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.commands.generators.values import Values

Arguments = list[bytes]
Emit = Callable[[Values, Arguments], None]
"""A compiled part of a template: appends the arguments it draws."""

_TOKEN = re.compile(r"'[^\s|<>{}()]+|[\[\]<>{}()|]|\*|[^\s\[\]<>{}()|*]+")
OPTION_CHANCE = 0.3


@dataclass(frozen=True)
class Template:
    """One line of a family's table, ready to draw steps from."""

    weight: float
    text: str
    safe_to_mutate: bool
    commands: tuple[Emit, ...]
    words: tuple[bytes, ...]
    """The literals of the line, as material for wrong commands."""

    @property
    def names(self) -> set[str]:
        """The commands of this line, with ``container|sub`` for subcommands."""
        found = set()
        for command in self.text.split(" ; "):
            names, rest = _first_words(command)
            subcommands, _ = _first_words(rest)
            found |= names | {f"{name}|{subcommand}" for name in names for subcommand in subcommands}
        return found

    def draw(self, values: Values) -> list[Arguments]:
        step = []
        for emit in self.commands:
            arguments: Arguments = []
            emit(values, arguments)
            step.append(arguments)
        return step


def _first_words(text: str) -> tuple[set[str], str]:
    """The word that a template starts with, or the words if there is a choice; and the rest."""
    choice = re.match(r"<([^>]*)>", text)
    first, rest = (choice[1], text[choice.end() :]) if choice else (text.partition(" ")[0], text.partition(" ")[2])
    return {words.split()[0].lower() for words in first.split("|") if words.strip()}, rest.strip()


def parse(table: str) -> list[Template]:
    """The templates of a family's table; ``#`` starts a comment line, and blanks a continuation."""
    lines = re.sub(r"\n +", " ", table).splitlines()
    weighted = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [_template(float(weight), text.strip()) for weight, _, text in weighted]


def _template(weight: float, text: str) -> Template:
    safe = not text.startswith("!")
    text = text.lstrip("! ")
    commands = tuple(_Parser(command).whole() for command in text.split(" ; "))
    words = re.findall(r"(?<![^\s\[\]<>{}()|])[A-Z][A-Z]+\b", text)
    return Template(weight, text, safe, commands, tuple(word.encode() for word in words[1:]))


class _Parser:
    """Compiles the text of one command by recursive descent."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)

    def whole(self) -> Emit:
        emit = _in_order(self.sequence())
        assert not self.tokens, f"unbalanced template: {self.text}"
        return emit

    def sequence(self, end: str = "") -> list[Emit]:
        parts: list[Emit] = []
        while self.tokens and self.tokens[0] not in (end, "|"):
            part = self.part(self.tokens.pop(0))
            if self.tokens and self.tokens[0] == "*":
                self.tokens.pop(0)
                part = _repeated(part)
            parts.append(part)
        return parts

    def alternatives(self, end: str) -> list[Emit]:
        choices = [_in_order(self.sequence(end))]
        while self.tokens.pop(0) == "|":
            choices.append(_in_order(self.sequence(end)))
        return choices

    def part(self, token: str) -> Emit:
        if token == "[":
            return _optional(self.alternatives("]"))
        if token == "<":
            return _one_of(self.alternatives(">"))
        if token == "(":
            return self.alternatives(")")[0]
        if token == "{":
            parts = self.sequence("}")
            self.tokens.pop(0)
            return _shuffled(parts)
        if token == "@":
            return lambda values, out: out.append(values.last_key)
        if token[0].islower():
            return _drawn(token)
        literal = b"" if token == '""' else token.removeprefix("'").encode()
        return lambda values, out: out.append(literal)


def _in_order(parts: list[Emit]) -> Emit:
    if len(parts) == 1:
        return parts[0]

    def emit(values: Values, out: Arguments) -> None:
        for part in parts:
            part(values, out)

    return emit


def _drawn(name: str) -> Emit:
    assert hasattr(Values, name), f"no such generator: {name}"

    def emit(values: Values, out: Arguments) -> None:
        drawn: Any = getattr(values, name)()
        if isinstance(drawn, bytes):
            out.append(drawn)
        else:
            out.extend(drawn)

    return emit


def _optional(choices: list[Emit]) -> Emit:
    def emit(values: Values, out: Arguments) -> None:
        if values.random.random() < OPTION_CHANCE:
            values.random.choice(choices)(values, out)

    return emit


def _one_of(choices: list[Emit]) -> Emit:
    return lambda values, out: values.random.choice(choices)(values, out)


def _shuffled(parts: list[Emit]) -> Emit:
    def emit(values: Values, out: Arguments) -> None:
        for part in values.random.sample(parts, len(parts)):
            part(values, out)

    return emit


def _repeated(part: Emit) -> Emit:
    def emit(values: Values, out: Arguments) -> None:
        for _ in range(values.random.choice((1, 1, 1, 2, 2, 3, 4))):
            part(values, out)

    return emit


GARBAGE = (
    *(b"", b"abc", b"1.5x", b" 1", b"1 ", b"+1", b"-0", b"01", b"1e5", b"nope\r\n", b"\xff\x00"),
    *(b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"--1"),
)
"""What stands in a number's place in a wrong command: nothing that is a small number to Redis."""


def mutate(random: Random, arguments: Arguments, words: tuple[bytes, ...]) -> Arguments:
    """A command like this one but probably wrong: in arity, in syntax or in a number."""
    wrong = list(arguments)
    place = random.randrange(1, len(wrong)) if len(wrong) > 1 else 0
    match random.randrange(6):
        case 0:
            del wrong[1:]
        case 1 if place:
            del wrong[place]
        case 2 if words:
            wrong.insert(place or 1, random.choice(words))
        case 3 if place > 1:
            wrong[place - 1], wrong[place] = wrong[place], wrong[place - 1]
        case 4 if place:
            wrong[place] = random.choice(GARBAGE)
        case 5:
            wrong.append(random.choice((b"EXTRA", b"1", wrong[-1])))
        case _:
            wrong[0] = wrong[0].swapcase()
    return wrong
