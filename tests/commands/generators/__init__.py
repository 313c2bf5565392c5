"""The families of commands from which the differential test draws its sequences."""

from tests.commands.generators import (
    bitmap,
    connection,
    expire,
    function,
    hash,
    key,
    list,
    pubsub,
    script,
    set,
    sort,
    string,
    transaction,
    zset,
)
from tests.commands.generators.family import Family

_VALUES = (string.TABLE, hash.TABLE, list.TABLE, set.TABLE, zset.TABLE)

FAMILIES = {
    family.name: family
    for family in (
        Family("string", string.TABLE, noise=(expire.TABLE, hash.TABLE)),
        Family("bitmap", bitmap.TABLE, noise=(string.TABLE,)),
        Family("hash", hash.TABLE, noise=(expire.TABLE, string.TABLE)),
        Family("list", list.TABLE, noise=(expire.TABLE, set.TABLE)),
        Family("set", set.TABLE, noise=(expire.TABLE, list.TABLE)),
        Family("zset", zset.TABLE, noise=(expire.TABLE, set.TABLE)),
        Family("key", key.TABLE, noise=_VALUES, databases=3),
        Family("expire", expire.TABLE, noise=_VALUES, databases=2),
        Family("sort", sort.TABLE, noise=(string.TABLE,)),
        Family("transaction", transaction.TABLE, nested=(*_VALUES, bitmap.TABLE, expire.TABLE), databases=2),
        Family("script", "".join((*_VALUES, bitmap.TABLE, expire.TABLE)), wrap=script.wrap),
        Family("function", function.TABLE, nested=(*_VALUES, bitmap.TABLE, expire.TABLE)),
        Family("pubsub", pubsub.TABLE, pushes=True),
        Family("connection", connection.TABLE),
    )
}
