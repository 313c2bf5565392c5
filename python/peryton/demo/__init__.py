"""`peryton demo`: the flights of New York in tables, a leaderboard and sessions in keys, and both at once."""

from peryton.demo.story import run

__all__ = ["run"]
