"""The parameters of a procedure: how many there may be, and what becomes of the values that a call gives.

A call gives int, float, str, bytes or None; a command or FCALL gives words, which are bytes of whatever is meant. The
annotation says what is wanted:

    annotation         from a value                     from a word
    int                int                              digits
    float              float, int                       a number
    str                str, int (in decimal)            UTF-8 text
    bytes              bytes, str (UTF-8), int          the word
    bool               0, 1                             0, 1, true, false
    date, datetime     str in ISO 8601                  the same
    Decimal            str, int                         the same
    list, dict         str that is JSON                 the same
    None               NULL                             never
    X | Y, Optional    the first that takes it          the same
    none, Any, object  what comes                       bytes
"""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from peryton.exceptions import ProcedureError


class Word(bytes):
    """An argument as a word of a request, whose type only the procedure knows."""

    __slots__ = ()


class Unfit(Exception):
    """A value is not what is wanted."""


Convert = Callable[[Any], Any]

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


# --- annotations ------------------------------------------------------------------------------------------------------


def _parameter(procedure: str, name: str, hint: Any) -> Parameter:
    try:
        convert = _converter(hint)
    except Unfit as wrong:
        raise TypeError(
            f"procedure {procedure}: parameter {name} cannot be {wrong}; known are int, float, str, bytes, bool, date, "
            "datetime, Decimal, list, dict, None, and unions of these"
        ) from None
    return Parameter(name, _words(hint), convert)


def _words(hint: Any) -> str:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join("NULL" if each is type(None) else _words(each) for each in typing.get_args(hint))
    return getattr(hint, "__name__", str(hint)) if typing.get_origin(hint) is None else str(hint)


def _converter(hint: Any) -> Convert | None:
    """What makes such a value of what comes; None when anything will do."""
    if hint in (Any, object, inspect.Parameter.empty):
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(hint))
    if origin in (list, dict):
        _check_json(hint)
        return _json(hint)
    if hint in (list, dict):
        return _json(hint)
    found = _CONVERTERS.get(hint)
    if found is None:
        raise Unfit(_words(hint))
    return found


def _union(members: tuple[Any, ...]) -> Convert | None:
    converters = [_converter(member) for member in members]
    if None in converters:
        return None
    # A value that already is one of these stays what it is.
    exact = {member for member in members if isinstance(member, type)} - {bytes}

    def convert(given: Any) -> Any:
        if type(given) in exact:
            return given
        for one in converters:
            try:
                return one(given)  # type: ignore[misc]
            except Unfit:
                continue
        raise Unfit

    return convert


def _text(given: Any) -> str:
    """A value that is text, or a word that may be."""
    if type(given) is Word:
        try:
            return given.decode()
        except UnicodeDecodeError:
            raise Unfit from None
    if isinstance(given, str):
        return given
    raise Unfit


_INTEGER = re.compile(rb"[+-]?[0-9]{1,4000}")


def _int(given: Any) -> int:
    if type(given) is int:
        return given
    if type(given) is Word and _INTEGER.fullmatch(given):
        return int(given)
    raise Unfit


def _float(given: Any) -> float:
    if type(given) is float or type(given) is int:
        return float(given)
    if type(given) is Word:
        try:
            return float(given)
        except ValueError:
            pass
    raise Unfit


def _str(given: Any) -> str:
    # An int may be text that looked like one on its way.
    return str(given) if type(given) is int else _text(given)


def _bytes(given: Any) -> bytes:
    if isinstance(given, bytes):
        return bytes(given)
    return _str(given).encode("utf-8", "surrogateescape")


def _bool(given: Any) -> bool:
    if type(given) is int and given in (0, 1):
        return bool(given)
    found = _TRUTHS.get(bytes(given).lower()) if type(given) is Word else None
    if found is None:
        raise Unfit
    return found


_TRUTHS = {b"0": False, b"1": True, b"false": False, b"true": True}


def _none(given: Any) -> None:
    if given is not None:
        raise Unfit


def _date(given: Any) -> date:
    try:
        return date.fromisoformat(_text(given))
    except ValueError:
        raise Unfit from None


def _datetime(given: Any) -> datetime:
    try:
        return datetime.fromisoformat(_text(given))
    except ValueError:
        raise Unfit from None


def _decimal(given: Any) -> Decimal:
    try:
        return Decimal(given if type(given) is int else _text(given))
    except InvalidOperation:
        raise Unfit from None


_CONVERTERS: dict[Any, Convert] = {
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    bool: _bool,
    type(None): _none,
    None: _none,
    date: _date,
    datetime: _datetime,
    Decimal: _decimal,
}


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(hint: Any) -> Convert:
    def convert(given: Any) -> Any:
        try:
            value = json.loads(_text(given))
        except (ValueError, RecursionError):
            raise Unfit from None
        if not _fits(value, hint):
            raise Unfit
        return value

    return convert


_PLAIN = (str, int, float, bool, type(None))


def _check_json(hint: Any) -> None:
    """Raises Unfit unless JSON has such values."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for each in args:
            _check_json(each)
    elif origin is dict and args:
        if args[0] is not str:
            raise Unfit(f"{hint}, as keys of JSON are str")
        _check_json(args[1])
    elif origin is list and args:
        _check_json(args[0])
    elif origin not in (list, dict, Any, object, *_PLAIN):
        raise Unfit(_words(hint))


def _fits(value: Any, hint: Any) -> bool:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin in (Any, object):
        return True
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in args)
    if origin is list:
        return isinstance(value, list) and (not args or all(_fits(item, args[0]) for item in value))
    if origin is dict:
        return isinstance(value, dict) and (not args or all(_fits(item, args[1]) for item in value.values()))
    if origin is float:
        return type(value) in (int, float)
    return type(value) is origin
