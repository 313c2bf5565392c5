"""Reservations of a shop: stock in a table, what a customer holds in a table, the day's figures in keys."""

import peryton
from peryton import Handle, ReplyError

TABLES = (
    "CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, stock INTEGER NOT NULL CHECK (stock >= 0))",
    "CREATE TABLE reservations (customer TEXT, item INTEGER REFERENCES items (id), count INTEGER, "
    "PRIMARY KEY (customer, item))",
)


@peryton.procedure(retries=100)  # in a rush all want the same row
def reserve(db: Handle, customer: str, item: int, count: int = 1) -> int:
    """Reserves some of an item; gives how many are left."""
    left = db.sql("SELECT stock FROM items WHERE id = ?", item).scalar()
    if left is None:
        raise ReplyError(f"there is no item {item}", "NOITEM")
    if left < count:
        raise ReplyError(f"only {left} left", "OUTOFSTOCK")
    db.sql("UPDATE items SET stock = stock - ? WHERE id = ?", count, item)
    held = db.table("reservations").get((customer, item))
    total = count + (held["count"] if held else 0)
    db.table("reservations").put({"customer": customer, "item": item, "count": total})
    db.command("HINCRBY", "reserved", item, count)
    return int(left) - count


@peryton.procedure
def reserve_all(db: Handle, customer: str, items: list[int]) -> int:
    """Reserves one of each item, or none at all; gives how many."""
    for item in items:
        reserve(db, customer, item)
    return len(items)


@peryton.procedure
def release(db: Handle, customer: str) -> int:
    """Gives back all that a customer holds; gives how many items that were."""
    held = db.sql("SELECT item, count FROM reservations WHERE customer = ?", customer)
    for item, count in held:
        db.sql("UPDATE items SET stock = stock + ? WHERE id = ?", count, item)
        db.command("HINCRBY", "reserved", item, -count)
    return db.sql("DELETE FROM reservations WHERE customer = ?", customer).rowcount
