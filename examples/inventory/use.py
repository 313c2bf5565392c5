"""Many customers reserve at once, and nothing is sold twice. See inventory.py."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import peryton

sys.path.insert(0, str(Path(__file__).parent))
import inventory

CUSTOMERS, STOCK = 12, 10


def try_to_reserve(db: peryton.Database, customer: str) -> str:
    """Reserves a stag; gives how that went."""
    try:
        db.call("reserve", customer, 1)
    except peryton.ReplyError as error:
        return error.code
    return "reserved"


def main(db: peryton.Database) -> None:
    """A rush on the last ones, a basket that cannot be had whole, and a customer who leaves."""
    for table in inventory.TABLES:
        db.sql(table)
    db.sql("INSERT INTO items VALUES (1, 'stag', ?), (2, 'hind', 5), (3, 'fawn', 0)", [STOCK])
    customers = [f"customer {number}" for number in range(CUSTOMERS)]
    with ThreadPoolExecutor(6) as threads:
        outcomes = list(threads.map(lambda customer: try_to_reserve(db, customer), customers))
    print("reserved", outcomes.count("reserved"), "out of stock", outcomes.count("OUTOFSTOCK"))
    try:
        db.call("reserve_all", "ann", [2, 3])
    except peryton.ReplyError as error:
        print("hind and fawn:", error)
    print("hinds left", db.sql("SELECT stock FROM items WHERE id = 2").scalar())
    holder = db.sql("SELECT min(customer) FROM reservations").scalar()
    print("released", db.call("release", holder))
    stock, held = db.sql("SELECT stock, (SELECT sum(count) FROM reservations) FROM items WHERE id = 1").one()
    print("stags left", stock, "held", held, "noted", int(db.command("HGET", "reserved", 1)))


if __name__ == "__main__":
    with peryton.connect(sys.argv[1]) if sys.argv[1:] else peryton.open() as db:
        if not sys.argv[1:]:
            for procedure in (inventory.reserve, inventory.reserve_all, inventory.release):
                db.register(procedure)
        main(db)
