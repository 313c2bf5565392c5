"""What becomes of the values that a call of a procedure gives, by the annotation of the parameter.

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
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any


class Word(bytes):
    """An argument as a word of a request, whose type only the procedure knows."""

    __slots__ = ()


class Unfit(Exception):
    """A value is not what is wanted."""


Convert = Callable[[Any], Any]


def words(hint: Any) -> str:
    """What an annotation wants, in words."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join("NULL" if each is type(None) else words(each) for each in typing.get_args(hint))
    return getattr(hint, "__name__", str(hint)) if typing.get_origin(hint) is None else str(hint)


def converter(hint: Any) -> Convert | None:
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
    found = _CONVERTERS.get(hint) if isinstance(hint, type | None) else None
    if found is None:
        raise Unfit(words(hint))
    return found


def _union(members: tuple[Any, ...]) -> Convert | None:
    converters = [converter(member) for member in members]
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


_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?inf")
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
    if type(given) is Word and _NUMBER.fullmatch(given):
        return float(given)
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
        raise Unfit(words(hint))


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
