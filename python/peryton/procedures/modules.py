"""Procedures from modules: what `peryton serve --procedures module:names` and PROCEDURE RELOAD load."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType

from peryton.exceptions import PerytonError
from peryton.procedures import mark
from peryton.procedures.mark import Procedure


class LoadError(PerytonError):
    """A module does not load, or has no such procedures.

    Solution: the message says what Python said; `python -c 'import module'` shows the whole of it.
    """


def load(specs: Sequence[str], *, again: bool) -> dict[str, Procedure]:
    """The procedures of modules by name in lower case; `again` imports the modules anew, all or none."""
    parts = [spec.partition(":") for spec in specs]
    names = list(dict.fromkeys(module for module, _, _ in parts))
    with _fresh(names) if again else contextlib.nullcontext():
        found = {name: _import(name) for name in names}
        procedures: dict[str, Procedure] = {}
        for module, _, chosen in parts:
            for procedure in _procedures(found[module], chosen):
                other = procedures.setdefault(procedure.name.lower(), procedure)
                if other.function is not procedure.function:
                    raise LoadError(f"two procedures are called {procedure.name}, one of them in {module}")
        return procedures


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise LoadError(f"the module {name} does not load: {type(error).__name__}: {error}") from error
    except SystemExit as error:
        raise LoadError(f"the module {name} does not load: it ends the program") from error


def _procedures(module: ModuleType, chosen: str) -> list[Procedure]:
    if chosen:
        return [_named(module, name.strip()) for name in chosen.split(",")]
    marked = [found for value in vars(module).values() if (found := mark.mark_of(value)) is not None]
    if not marked:
        raise LoadError(f"the module {module.__name__} has no procedures: @peryton.procedure makes one")
    return marked


def _named(module: ModuleType, name: str) -> Procedure:
    """The procedure called so, by its own name or by that of its function."""
    for value in vars(module).values():
        found = mark.mark_of(value)
        if found is not None and found.name == name:
            return found
    found = mark.mark_of(getattr(module, name, None))
    if found is None:
        raise LoadError(f"the module {module.__name__} has no procedure {name}")
    return found


@contextlib.contextmanager
def _fresh(names: Sequence[str]) -> Iterator[None]:
    """Inside, these modules and what is inside of them are imported anew; an exception brings the old ones back."""
    inside = tuple(f"{name}." for name in names)
    old = {name: module for name, module in sys.modules.items() if name in names or name.startswith(inside)}
    for name, module in old.items():
        del sys.modules[name]
        _forget_bytecode(module)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in [name for name in sys.modules if name in names or name.startswith(inside)]:
            del sys.modules[name]
        sys.modules.update(old)
        raise


def _forget_bytecode(module: ModuleType) -> None:
    """Python takes compiled code for current when its source has the same size and second of change."""
    source = getattr(module, "__file__", None)
    if source and source.endswith(".py"):
        with contextlib.suppress(OSError, NotImplementedError):
            os.remove(importlib.util.cache_from_source(source))
