"""How numbers are read, added and printed: scores, integers at their bounds, and the floats of INCRBYFLOAT.

Redis adds in INCRBYFLOAT and HINCRBYFLOAT with 80-bit floats and prints up to
17 decimals without trailing zeros; scores are 64-bit floats printed with up to
17 significant digits. Both can be seen from outside, so both are compared here.
"""

from tests.commands.scenario import Scenarios, Stage, each

scenarios = Scenarios()

DECIMALS = """
0 1 -1 -0 0.0 -0.0 1.0 1.5 0.1 0.2 0.3 3.3 3.14 2.718281828459045 100 1e2 1E2 1e+2 1e-2 .5 5. 00012 1e15 1e16 1e17
123456789012345678 9007199254740991 9007199254740992 9007199254740993 1e20 1e21 1e22 1e100 1e308
1.7976931348623157e308 2.2250738585072014e-308 5e-324 4.9e-324 1e-5 1e-6 1e-7 123456.789 0.30000000000000004
0.1000000000000000055511151231 99999999999999999 999999999999999.9 1.0000000000000002 4503599627370496.5 -3.3
-1e-7 0.000001 12345678.9 1e-300 16777217 4294967295 4294967296 2147483648 9223372036854775807 9223372036854775808
-9223372036854775808 18446744073709551615
""".split()
ODD_DECIMALS = """
inf -inf +inf Inf INF infinity -Infinity nan NaN -nan nan(1) 0x10 0x1p3 -0x.8p1 0X1F 1e400 -1e400 1e-400 1e4000
1e-4000 1e5000 1e 1e+ e1 . + - +1 ++1 1.5.5 1,5 1_000 abc 1a 0b1 1d 1f 1L
""".split()
BLANKS = ("", " ", " 1", "1 ", "\t1", "1\n", "1\x00", "\x001", "1 2")
SUMS = each("""
0.1 0.2 | 0.1 0.7 | 1.1 2.2 | 3.0 1.1 | 5.0e3 200 | 10.5 0.1 | 10.6 -5 | 1e15 0.1 | 1e16 1 | 1e17 1 | 1e18 0.5
9e18 9e18 | 1e19 1 | 1e20 1 | 1e22 1 | 1e-5 1e-5 | 1e-10 1e-10 | 1e-17 1e-17 | 1e-18 0 | 0.5 0.5
0.333333333333333333 0.333333333333333333 | 1e300 1 | 1e300 -1e300 | 3.14159265358979323846 0 | 2.5 -2.5
-0.1 0.1 | 0 -0.0 | 123456789.123456789 0.000000001 | 1 1e-17 | 1 1e-20 | 100 -0.01 | 1e308 1e308 | 1e4000 1e4000
1.7976931348623157e308 1e292 | 4.35 0.01 | 1.005 1000 | 9007199254740993 0.5 | 18446744073709551615 1
""")


@scenarios
def scores_are_read_and_printed(stage: Stage) -> None:
    client = stage.client("client")
    for text in (*DECIMALS, *ODD_DECIMALS, *BLANKS):
        client("ZADD", "z", text, "m")
        client("ZSCORE", "z", "m")
        client("ZRANGE", "z", 0, -1, "WITHSCORES")
        client("ZINCRBY", "z", text, "m")
        client("ZADD", "z", "INCR", text, "m")
        client("ZCOUNT", "z", text, f"({text}")
        client("DEL", "z")


@scenarios
def floats_are_added(stage: Stage) -> None:
    client = stage.client("client")
    for pair in SUMS:
        first, second = pair.split()
        for start in (first, second):
            step = second if start is first else first
            client("SET", "s", start)
            client("INCRBYFLOAT", "s", step)
            client("GET", "s")
            client("HSET", "h", "f", start)
            client("HINCRBYFLOAT", "h", "f", step)
            client("HGET", "h", "f")
            client("ZADD", "z", start, "m")
            client("ZINCRBY", "z", step, "m")


@scenarios
def floats_are_read(stage: Stage) -> None:
    client = stage.client("client")
    for text in (*DECIMALS, *ODD_DECIMALS, *BLANKS):
        client("SET", "s", text)
        client("INCRBYFLOAT", "s", 0)
        client("SET", "s", 0)
        client("INCRBYFLOAT", "s", text)
        client("HSET", "h", "f", text)
        client("HINCRBYFLOAT", "h", "f", 0)
        client("HSET", "h", "f", 0)
        client("HINCRBYFLOAT", "h", "f", text)


@scenarios
def a_float_counted_up_many_times(stage: Stage) -> None:
    client = stage.client("client")
    for step in ("0.1", "0.01", "1.1", "-0.3", "1e-7"):
        client("DEL", "s")
        client.together(*[("INCRBYFLOAT", "s", step)] * 200)


@scenarios
def integers_are_read_strictly(stage: Stage) -> None:
    client = stage.client("client")
    for text in (*DECIMALS, *ODD_DECIMALS, *BLANKS):
        client("SET", "s", text)
        client("INCR", "s")
        client("OBJECT", "ENCODING", "s")
        client("SET", "s", 0)
        client("INCRBY", "s", text)
        client("DECRBY", "s", text)
        client("HSET", "h", "f", text)
        client("HINCRBY", "h", "f", 1)
        client("HINCRBY", "h", "g", text)
        client("LRANGE", "none", 0, text)
        client("SETRANGE", "none", text, "")


@scenarios
def integers_do_not_overflow(stage: Stage) -> None:
    client = stage.client("client")
    bounds = (2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1, 0, 1, -1)
    for start in bounds:
        for step in bounds:
            client("SET", "s", start)
            client("INCRBY", "s", step)
            client("SET", "s", start)
            client("DECRBY", "s", step)
            client("HSET", "h", "f", start)
            client("HINCRBY", "h", "f", step)
        client("SET", "s", start)
        client("INCR", "s")
        client("SET", "s", start)
        client("DECR", "s")


@scenarios
def aggregates_of_scores(stage: Stage) -> None:
    client = stage.client("client")
    scores = ("0.1", "0.2", "0.3", "1e16", "1", "-1e16", "inf", "-inf", "3.3")
    for at, score in enumerate(scores):
        client("ZADD", f"z{at}", score, "m", 0, f"only{at}")
    for aggregate in ("SUM", "MIN", "MAX"):
        for keys in (["z0", "z1", "z2"], ["z2", "z1", "z0"], ["z3", "z4", "z5"], ["z6", "z7"], ["z0", "z8"]):
            client("ZUNION", len(keys), *keys, "AGGREGATE", aggregate, "WITHSCORES")
            client("ZINTER", len(keys), *keys, "AGGREGATE", aggregate, "WITHSCORES")
            weights = ["0", "-1", "inf"][: len(keys)]
            client("ZUNION", len(keys), *keys, "WEIGHTS", *weights, "AGGREGATE", aggregate, "WITHSCORES")


@scenarios
def bit_fields_wrap_saturate_and_fail(stage: Stage) -> None:
    client = stage.client("client")
    for width in ("u1", "i1", "u2", "i2", "u7", "i8", "u16", "i31", "u32", "i33", "u63", "i64"):
        for overflow in ("WRAP", "SAT", "FAIL"):
            for value in (0, 1, -1, 127, 128, -128, -129, 255, 256, 2**31, 2**63 - 1, -(2**63)):
                if overflow == "SAT" and value == -(2**63):
                    continue  # an overflow in Redis's own arithmetic: it takes the highest value
                client("BITFIELD", "b", "OVERFLOW", overflow, "SET", width, "#1", value, "GET", width, "#1")
                client("BITFIELD", "b", "OVERFLOW", overflow, "INCRBY", width, "3", value, "INCRBY", width, "3", value)


test_numbers = scenarios.test()
