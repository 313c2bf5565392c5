"""A rate limiter by a Lua library: whether a request may pass, and the note that it did, are one step."""

import sys
from pathlib import Path

import peryton

LIBRARY = Path(__file__).with_name("rate_limiter.lua").read_text()
WINDOW_MS, LIMIT = 1000, 3


def main(db: peryton.Database) -> None:
    """Sends requests at given times."""
    db.command("FUNCTION", "LOAD", "REPLACE", LIBRARY)
    for now_ms in (10_000, 10_100, 10_100, 10_200, 10_999, 11_001, 11_050, 11_101):
        allowed, number = db.call("allow", "198.51.100.7", now_ms, WINDOW_MS, LIMIT)
        print(now_ms, f"passes, {number} left" if allowed else f"waits {number} ms")


if __name__ == "__main__":
    with peryton.connect(sys.argv[1]) if sys.argv[1:] else peryton.open() as db:
        main(db)
