"""A cache that cannot be stale: keys and table change in one transaction. See cache.py."""

import sys
from pathlib import Path

import peryton

sys.path.insert(0, str(Path(__file__).parent))
import cache


def main(db: peryton.Database) -> None:
    """Reads, changes, and reads again."""
    db.sql(cache.TABLE)
    db.sql("INSERT INTO articles VALUES (1, 'antler', '9.50'), (2, 'feather', '1.25')")
    for _ in range(3):
        print(db.call("article", 1))
    print("changed", db.call("change_price", 1, "8.75"))
    print(db.call("article", 1))
    print("no such article:", db.call("article", 3))
    hits, misses = (int(db.command("GET", f"cache:{name}")) for name in ("hits", "misses"))
    print("hits", hits, "misses", misses)


if __name__ == "__main__":
    with peryton.connect(sys.argv[1]) if sys.argv[1:] else peryton.open() as db:
        if not sys.argv[1:]:
            for procedure in (cache.article, cache.change_price):
                db.register(procedure)
        main(db)
