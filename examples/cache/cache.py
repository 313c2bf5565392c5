"""Keys as a cache of a table: what is looked up is kept as JSON for a minute; a change drops it in the same step."""

import json
from typing import Any

import peryton
from peryton import Handle

TABLE = "CREATE TABLE articles (id INTEGER PRIMARY KEY, title TEXT NOT NULL, price DECIMAL(8, 2) NOT NULL)"
KEPT_S = 60


def key_of(article: int) -> str:
    """Where an article is kept."""
    return f"article:{article}"


@peryton.procedure
def article(db: Handle, article: int) -> dict[str, Any] | None:
    """An article, from the cache or the table."""
    kept = db.command("GET", key_of(article))
    if kept is not None:
        db.command("INCR", "cache:hits")
        return dict(json.loads(kept))
    db.command("INCR", "cache:misses")
    found = db.table("articles").get(article)
    if found is not None:
        db.command("SET", key_of(article), json.dumps(found), "EX", KEPT_S)
    return found


@peryton.procedure
def change_price(db: Handle, article: int, price: str) -> bool:
    """Changes a price; nobody sees the old one in the cache and the new one in the table, or the other way round."""
    db.command("DEL", key_of(article))
    return db.sql("UPDATE articles SET price = ? WHERE id = ?", price, article).rowcount == 1
