"""The parameters of a procedure: how many there may be, and what each wants."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from peryton.exceptions import ProcedureError
from peryton.procedures.convert import Convert, Unfit, Word, converter, words

_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter."""

    name: str
    #: What is wanted, in words.
    wanted: str
    #: None: what comes.
    convert: Convert | None

    def value(self, procedure: str, given: Any) -> Any:
        """The argument, or an error that names the parameter."""
        if self.convert is None:
            return bytes(given) if type(given) is Word else given
        try:
            return self.convert(given)
        except Unfit:
            text = f"{procedure}: parameter {self.name} wants {self.wanted}, given {_shown(given)}"
            raise ProcedureError(text) from None


@dataclass(frozen=True)
class Signature:
    """All parameters but the handle."""

    procedure: str
    parameters: tuple[Parameter, ...]
    #: How many have no default.
    required: int
    #: The parameter that takes all further arguments.
    rest: Parameter | None
    text: str

    @staticmethod
    def of(procedure: str, function: Callable[..., Any]) -> Signature:
        """Those of a function, or a TypeError that says what is wrong with them."""
        try:
            hints = typing.get_type_hints(function)
        except Exception as error:
            raise TypeError(f"procedure {procedure}: its annotations cannot be read: {error}") from error
        listed = list(inspect.signature(function).parameters.values())
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        if not listed or listed[0].kind not in (*positional, inspect.Parameter.VAR_POSITIONAL):
            raise TypeError(f"procedure {procedure}: its first parameter is the handle, and it has none")
        parameters: list[Parameter] = []
        required, rest = 0, None
        for each in listed if listed[0].kind is inspect.Parameter.VAR_POSITIONAL else listed[1:]:
            parameter = _parameter(procedure, each.name, hints.get(each.name, Any))
            if each.kind in positional:
                parameters.append(parameter)
                required += each.default is inspect.Parameter.empty
            elif each.kind is inspect.Parameter.VAR_POSITIONAL:
                rest = parameter
            elif each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is inspect.Parameter.empty:
                raise TypeError(f"procedure {procedure}: {each.name} can be given by name alone, and calls give none")
        text = _text_of(listed[1:], hints)
        return Signature(procedure, tuple(parameters), required, rest, text)

    def bind(self, given: Sequence[Any]) -> list[Any]:
        """The arguments for these values, or a ProcedureError that says what is wrong."""
        count = len(self.parameters)
        if len(given) < self.required or (len(given) > count and self.rest is None):
            raise ProcedureError(f"{self.procedure}{self.text} takes {self._count()}, {len(given)} given")
        bound = [
            parameter.value(self.procedure, value) for parameter, value in zip(self.parameters, given, strict=False)
        ]
        if self.rest is not None:
            bound += [self.rest.value(self.procedure, value) for value in given[count:]]
        return bound

    def _count(self) -> str:
        most = len(self.parameters)
        if self.rest is not None:
            return f"at least {self.required} arguments"
        if self.required == most:
            return "1 argument" if most == 1 else f"{most} arguments"
        return f"{self.required} to {most} arguments"

    def __str__(self) -> str:
        return self.text


def _parameter(procedure: str, name: str, hint: Any) -> Parameter:
    try:
        convert = converter(hint)
    except Unfit as wrong:
        raise TypeError(
            f"procedure {procedure}: parameter {name} cannot be {wrong}; known are int, float, str, bytes, bool, date, "
            "datetime, Decimal, list, dict, None, and unions of these"
        ) from None
    return Parameter(name, words(hint), convert)


def _text_of(parameters: Sequence[inspect.Parameter], hints: dict[str, Any]) -> str:
    """Parameters as people write them; a default that is long or has no text is left out."""
    shown: list[inspect.Parameter] = []
    for each in parameters:
        each = each.replace(annotation=hints.get(each.name, inspect.Parameter.empty))
        try:
            is_short = len(repr(each.default)) <= _SHOWN_CHARS
        except Exception:
            is_short = False
        shown.append(each if is_short else each.replace(default=...))
    return str(inspect.Signature(shown))


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    kind = "the word" if type(value) is Word else type(value).__name__
    text = repr(bytes(value)) if type(value) is Word else repr(value)
    return f"{kind} {text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + '..'}"
