"""Encodings as OBJECT ENCODING names them: at every threshold, on both sides, and who converts when."""

from tests.commands.scenario import Actor, Scenarios, Stage, each

scenarios = Scenarios()


def encoding(client: Actor, key: str = "k") -> None:
    client("OBJECT", "ENCODING", key)


@scenarios
def of_strings(stage: Stage) -> None:
    client = stage.client("client")
    for value in (
        *(
            "",
            "a",
            "12",
            "-12",
            "007",
            "+1",
            "1.5",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
        ),
        *("x" * 43, "x" * 44, "x" * 45, "9" * 19, "9" * 20, "9" * 44, "9" * 45, " 1", "-0", "0", "10000", "1e3"),
    ):
        client("SET", "k", value)
        encoding(client)
        for change in each("APPEND k x | SETRANGE k 0 1 | SETBIT k 1 1 | GETSET k 5 | INCR k | INCRBYFLOAT k 0.5"):
            client("SET", "k", value)
            client(*change.split())
            encoding(client)
    for command in each(
        """
        MSET k 1 | MSETNX k2 1 | SETNX k3 abc | GETSET k abc | SETEX k 100 12 | APPEND k4 12 | SETRANGE k5 0 12
        SETBIT k6 1 1 | BITOP NOT k7 k | COPY k k8 | BITFIELD k9 SET u8 0 49 | INCRBY k10 7 | INCRBYFLOAT k11 7
        SUBSTR k 0 0 | RENAME k8 k12 | SORT none STORE k13
        """
    ):
        client(*command.split())
    for number in ("", *range(2, 14)):
        encoding(client, f"k{number}")


@scenarios
def of_hashes(stage: Stage) -> None:
    client = stage.client("client")
    for count in (1, 127, 128, 129, 511, 512, 513, 514):
        client("DEL", "k")
        client("HSET", "k", *[word for number in range(count) for word in (f"f{number}", number)])
        encoding(client)
        client("HSET", "k", "one more", 1)
        encoding(client)
        client("HDEL", "k", *[f"f{number}" for number in range(count)])
        encoding(client)
    for size in (63, 64, 65):
        for field, value in (("f" * size, "v"), ("f", "v" * size), ("1" * 10, "2" * size)):
            client("DEL", "k")
            client("HSET", "k", field, value)
            encoding(client)
            client("HSET", "k", field, "short")
            encoding(client)
    client("DEL", "k")
    client("HSET", "k", "n", "1")
    client("HINCRBYFLOAT", "k", "n", "1e300")
    encoding(client)


@scenarios
def of_lists(stage: Stage) -> None:
    client = stage.client("client")
    for count in (1, 128, 129, 512, 513, 5000):
        client("DEL", "k")
        client("RPUSH", "k", *range(count))
        encoding(client)
        client("LTRIM", "k", 0, 0)
        encoding(client)
    client("RPUSH", "k", "x" * 100_000)
    encoding(client)


@scenarios
def of_sets(stage: Stage) -> None:
    client = stage.client("client")
    for count in (1, 128, 129, 511, 512, 513):
        client("DEL", "k")
        client("SADD", "k", *range(count))
        encoding(client)
        client("SADD", "k", 2**63 - 1)
        encoding(client)
        client("SREM", "k", *range(count))
        encoding(client)
        client("DEL", "k")
        client("SADD", "k", *[f"m{number}" for number in range(count)])
        encoding(client)
    for members in (
        ["1", "a"],
        ["a", "1"],
        ["1", "2", "03"],
        ["1", "-0"],
        ["1", "+2"],
        ["1", str(2**63)],
        ["1", "1.0"],
        ["1", ""],
    ):
        client("DEL", "k")
        client("SADD", "k", *members)
        encoding(client)
        client("SREM", "k", *members[1:])
        encoding(client)
        client("SMEMBERS", "k")


@scenarios
def of_stored_sets(stage: Stage) -> None:
    client = stage.client("client")
    client("SADD", "numbers", *range(20))
    client("SADD", "more", *range(10, 30), "word")
    client("SADD", "words", "word", "other")
    client("SADD", "many", *range(600))
    client("SADD", "half", *range(300))
    client("SADD", "rest", *range(300, 600))
    for command in each(
        """
        SUNIONSTORE k numbers | SUNIONSTORE k more | SUNIONSTORE k numbers more | SINTERSTORE k numbers more
        SINTERSTORE k more more | SDIFFSTORE k more numbers | SDIFFSTORE k more words
        SDIFFSTORE k more numbers words | SDIFFSTORE k more words numbers words | SDIFFSTORE k numbers words
        SUNIONSTORE k many | SUNIONSTORE k half rest | SINTERSTORE k many half | SDIFFSTORE k many half
        SINTERSTORE k many many
        """
    ):
        client(*command.split())
        encoding(client)
    client("SMOVE", "more", "numbers", "word")
    encoding(client, "numbers")
    client.quietly("SPOP", "half", 299)
    encoding(client, "half")


@scenarios
def of_sorted_sets(stage: Stage) -> None:
    client = stage.client("client")
    for count in (1, 127, 128, 129):
        client("DEL", "k")
        client("ZADD", "k", *[word for number in range(count) for word in (number, f"m{number}")])
        encoding(client)
        client("ZADD", "k", 1, "one more")
        encoding(client)
        client("ZREMRANGEBYRANK", "k", 1, -1)
        encoding(client)
    for size in (63, 64, 65):
        client("DEL", "k")
        client("ZADD", "k", 1, "m" * size)
        encoding(client)
        client("ZADD", "k", 1, "short")
        client("ZREM", "k", "m" * size)
        encoding(client)


@scenarios
def of_stored_sorted_sets(stage: Stage) -> None:
    client = stage.client("client")
    pairs = [word for number in range(129) for word in (number, f"m{number}")]
    client("ZADD", "many", *pairs)
    client("ZADD", "few", *pairs[:20])
    client("ZADD", "long", 1, "x" * 65, 2, "y")
    client("SADD", "set", *range(200))
    for command in each(
        """
        ZUNIONSTORE k 1 few | ZUNIONSTORE k 1 many | ZUNIONSTORE k 2 few long | ZINTERSTORE k 2 few many
        ZINTERSTORE k 1 set | ZDIFFSTORE k 2 many few | ZDIFFSTORE k 2 few long | ZRANGESTORE k many 0 -1
        ZRANGESTORE k many 0 127 | ZRANGESTORE k many 0 128 | ZRANGESTORE k long 0 0 | ZRANGESTORE k long 1 1
        ZRANGESTORE k many -inf +inf BYSCORE | ZRANGESTORE k many 0 5 BYSCORE | ZRANGESTORE k few - + BYLEX
        ZUNIONSTORE k 1 set
        """
    ):
        client(*command.split())
        encoding(client)


@scenarios
def copies_and_renames_keep_theirs(stage: Stage) -> None:
    client = stage.client("client")
    client("HSET", "h", *range(1200))
    client("HDEL", "h", *range(2, 1200, 2))
    client("SADD", "t", "a", "1")
    client("SREM", "t", "a")
    client("ZADD", "z", 1, "m" * 65, 2, "n")
    client("ZREM", "z", "m" * 65)
    client("APPEND", "s", "12")
    for key in ("h", "t", "z", "s"):
        encoding(client, key)
        client("COPY", key, "copy", "REPLACE")
        encoding(client, "copy")
        client("RENAME", key, "renamed")
        encoding(client, "renamed")


test_encodings = scenarios.test()
