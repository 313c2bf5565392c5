"""The procedures of one embedded store, and the threads that run them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from peryton.exceptions import ProcedureError
from peryton.procedures import mark, modules, run
from peryton.procedures.mark import Procedure

if TYPE_CHECKING:
    from peryton import _core

THREADS = 4
"""Threads that run procedures, unless the opener of the store says otherwise."""


class Registry:
    """Python procedures by name."""

    def __init__(self, core: _core.Procedures, threads: int) -> None:
        self._core = core
        self._threads = threads
        self._lock = threading.Lock()
        self._started = False
        #: By name in lower case; replaced as a whole, never changed.
        self._procedures: dict[str, Procedure] = {}
        self._specs: list[str] = []
        #: Names of those that came from modules.
        self._loaded: set[str] = set()

    def register(self, function: Callable[..., Any]) -> None:
        """Makes a function known, in the place of the one with its name."""
        procedure = mark.of(function)
        with self._lock:
            self._set({**self._procedures, procedure.name.lower(): procedure})

    def load(self, specs: Iterable[str]) -> list[str]:
        """Loads the procedures of modules, `module` or `module:name,name`; gives their names."""
        specs = list(specs)
        with self._lock:
            found = modules.load([*self._specs, *specs], again=False)
            return self._take(found, [*self._specs, *specs])

    def reload(self) -> list[str]:
        """Loads the modules anew; the procedures there are stay when that fails. Gives the names of those loaded."""
        with self._lock:
            if not self._specs:
                raise ProcedureError("RELOAD: no procedures came from modules (peryton serve --procedures)")
            try:
                found = modules.load(self._specs, again=True)
            except modules.LoadError as error:
                raise ProcedureError(f"RELOAD: {error}; the old procedures stay") from error
            return self._take(found, self._specs)

    def get(self, name: str) -> Procedure:
        """The procedure of this name."""
        found = self._procedures.get(name.lower())
        if found is None:
            raise ProcedureError(f"there is no procedure {name} any longer")
        return found

    def _take(self, found: dict[str, Procedure], specs: list[str]) -> list[str]:
        others = {name: procedure for name, procedure in self._procedures.items() if name not in self._loaded}
        for name in found.keys() & others.keys():
            raise ProcedureError(f"there is a procedure {name} already")
        self._set({**others, **found})
        self._specs, self._loaded = specs, set(found)
        return sorted(procedure.name for procedure in found.values())

    def _set(self, procedures: dict[str, Procedure]) -> None:
        before = self._procedures
        # First here, so that what the store knows of can be found.
        self._procedures = procedures
        try:
            self._core.declare([procedure.declaration() for procedure in procedures.values()])
        except BaseException:
            self._procedures = before
            raise
        if not self._started:
            self._started = True
            for _ in range(self._threads):
                self._start_thread()

    def _start_thread(self) -> None:
        threading.Thread(target=self._work, name="peryton-procedure", daemon=True).start()

    def _work(self) -> None:
        run.work(self, self._core.worker(run.StopProcedure, self._start_thread))
