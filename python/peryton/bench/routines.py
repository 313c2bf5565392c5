"""The Python procedures of the suite `procedures`: `peryton serve --procedures peryton.bench.routines`."""

import time

import peryton


@peryton.procedure
def py_empty(db: peryton.Handle) -> None:
    """Does nothing."""


@peryton.procedure
def py_set_session(db: peryton.Handle, token: str, user: str, now: int) -> str:
    """Four SETs: see routines.lua."""
    command = db.command
    command("SET", token, user)
    command("SET", f"{token}:made", now)
    command("SET", f"{token}:seen", now)
    command("SET", user, token)
    return "OK"


@peryton.procedure(read_only=True)
def py_get_session(db: peryton.Handle, token: bytes) -> object:
    """Two GETs and logic: see routines.lua."""
    user = db.command("GET", token)
    if user is None or db.command("GET", user) != token:
        return None
    return user


@peryton.procedure(read_only=True)
def py_spin(db: peryton.Handle, seconds: float) -> int:
    """Keeps Python busy."""
    until, turns = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        turns += 1
    return turns
