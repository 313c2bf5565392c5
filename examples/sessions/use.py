"""Sessions by a Lua library: each step of a log-in is one call. See sessions.lua."""

import sys
from pathlib import Path

import peryton

LIBRARY = Path(__file__).with_name("sessions.lua").read_text()


def main(db: peryton.Database) -> None:
    """Logs in on two devices, looks the sessions up, and ends them."""
    db.command("FUNCTION", "LOAD", "REPLACE", LIBRARY)
    for token, agent in (("t1", "phone"), ("t2", "laptop")):
        print("open", token, db.call("session_open", token, "ann", agent))
    try:
        db.call("session_open", "t1", "bob", "thief")
    except peryton.ReplyError as error:
        print("open t1 again:", error)
    for _ in range(2):
        user, hits = db.call("session_get", "t1")
        print("t1 is", user.decode(), "for the", hits, "time")
    print("closed", db.call("session_close_all", "ann"))
    print("t1 is", db.call("session_get", "t1"))


if __name__ == "__main__":
    with peryton.connect(sys.argv[1]) if sys.argv[1:] else peryton.open() as db:
        main(db)
