"""Draws keys, values and numbers from pools small enough to collide and odd enough to hurt.

Limits that the pools keep, so that a sequence stays quick and alike on two servers:

1. No number between 10^5 and 2^32-1: as an offset it would make a huge string.
2. No relative expire time that ends within a sequence: a key vanishes at once or not at all.
3. No negative count beyond -10 for the commands that draw members at random.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.commands.generators import function

KEYS: dict[str, tuple[bytes, ...]] = {
    "string": (b"s1", b"s2", b"s3"),
    "hash": (b"h1", b"h2", b"h3"),
    "list": (b"l1", b"l2", b"l3"),
    "set": (b"t1", b"t2", b"t3"),
    "zset": (b"z1", b"z2", b"z3"),
    "lex": (b"x1", b"x2", b"x3"),
    "odd": (b"", b"a key", b"\x00\xff\r\n", b"missing"),
}
ALL_KEYS = tuple(key for keys in KEYS.values() for key in keys)

WORDS = (b"a", b"b", b"c", b"d", b"e", b"aa", b"ab", b"Foo", b"foo", b"bar", b"hello world")
SMALL_INTEGERS = tuple(b"%d" % number for number in (*range(-3, 12), 100, 1000, 10000, 65536))
BIG_INTEGERS = (
    *(b"4294967296", b"-2147483649", b"9007199254740993", b"1000000000000000000"),
    *(b"9223372036854775807", b"-9223372036854775808", b"9223372036854775806"),
)
FLOATS = (
    *(b"0.5", b"-1.5", b"3.0", b"2.25", b"10.125", b"3.14", b"0.1", b"-0.2", b"1e3", b"1E-2", b"5e-1", b"-0.0"),
    *(b"1e15", b"1e16", b"1e17", b"1e21", b"1.7976931348623157e308", b"2.2250738585072014e-308", b"5e-324"),
    *(b"123456789.123456789", b"0.30000000000000004", b"12345678901234567890", b".5", b"5.", b"0x10"),
)
INFINITIES = (b"inf", b"-inf", b"+inf", b"Infinity", b"-Infinity", b"INF")
NOT_NUMBERS = (b"nan", b"NaN", b"abc", b"", b" 1", b"1 ", b"1.5.5", b"--1", b"1e400", b"0x", b"1,5", b"+", b"1\x00")
ODD_VALUES = (
    *(b"", b" ", b"\x00", b"\xff\xfe\x80", b"line\r\nbreak", "ünï€".encode(), b"007", b"+5", b"-0", b"1e2", b"3.0"),
    *(b"x" * 44, b"x" * 45, b"y" * 64, b"y" * 65, b"z" * 300, b"9" * 19, b"9" * 20, b"9" * 25),
)
BIT_TYPES = (b"u8", b"i8", b"u4", b"i5", b"u1", b"i1", b"u16", b"i16", b"u32", b"i64", b"u63")
PATTERNS = (
    *(b"*", b"s*", b"?1", b"[sh]?", b"[^s]*", b"[a-m]1", b"l[1-2]", b"\\s1", b"s\\1", b"[", b"[s", b"", b"nothing"),
    *(b"**1", b"*1*", b"[z-a]1", b"[]", b"[^]", b"?", b"s1", b"*\\", b"[\\s]1", b"h[^1]"),
)


class Values:
    """One source of arguments; `family` says which keys it prefers."""

    def __init__(self, random: Random, family: str) -> None:
        self.random = random
        self.family = family if family in KEYS else "any"
        self.last_key = b"s1"
        self.nested: Callable[[Values], list[bytes]] = lambda values: values.any_write()
        """Draws one whole command; a family that nests commands sets it."""

    # Libraries of functions

    def library(self) -> bytes:
        return function.library(self.random)

    def bad_library(self) -> bytes:
        return function.bad_library(self.random)

    def library_name(self) -> bytes:
        return self.random.choice((*function.LIBRARIES, "none", "LIBA")).encode()

    def library_pattern(self) -> bytes:
        return self.random.choice((b"L*", b"l*", b"*b", b"?IBA", b"[x-z]*", b"*", b"libc"))

    def function_name(self) -> bytes:
        name = self.random.choice((*function.FUNCTIONS, "none"))
        return (name.swapcase() if self.random.random() < 0.1 else name).encode()

    def library_payload(self) -> bytes:
        texts = [self.library() for _ in range(self.random.randint(0, 2))]
        if self.random.random() < 0.1:
            texts.append(self.bad_library())
        return function.payload(*texts)

    # Keys

    def key(self) -> bytes:
        """Mostly a key of the family's own type, sometimes another's, to meet WRONGTYPE."""
        return self._key_of(self.family)

    def any_key(self) -> bytes:
        return self._key_of("any")

    def string_key(self) -> bytes:
        return self._key_of("string")

    def hash_key(self) -> bytes:
        return self._key_of("hash")

    def list_key(self) -> bytes:
        return self._key_of("list")

    def set_key(self) -> bytes:
        return self._key_of("set")

    def zset_key(self) -> bytes:
        return self._key_of("zset")

    def lex_key(self) -> bytes:
        """Of a sorted set whose members all have score 0; no other command writes to it."""
        self.last_key = self.random.choice(KEYS["lex"])
        return self.last_key

    def _key_of(self, kind: str) -> bytes:
        luck = self.random.random()
        if kind == "any" or luck < 0.06:
            kind = self.random.choice(("string", "hash", "list", "set", "zset"))
        if luck > 0.98:
            kind = "odd"
        self.last_key = self.random.choice(KEYS[kind])
        return self.last_key

    def every_key(self) -> Sequence[bytes]:
        """All keys there are, to touch them so that the expired ones are gone."""
        return ALL_KEYS

    def counted_keys(self) -> list[bytes]:
        """A count and so many keys, as ZUNION and LMPOP take them."""
        keys = [self.key() for _ in range(self.random.choice((1, 1, 2, 2, 3)))]
        return [self._count_of(keys), *keys]

    def counted_set_or_zset_keys(self) -> list[bytes]:
        keys = [
            self.zset_key() if self.random.random() < 0.8 else self.set_key()
            for _ in range(self.random.choice((1, 2, 2, 3)))
        ]
        return [self._count_of(keys), *keys]

    def weighted_keys(self) -> list[bytes]:
        """A count, so many keys, and mostly the right number of weights."""
        counted = self.counted_set_or_zset_keys()
        weights = len(counted) - 1 + (self.random.random() < 0.03)
        return [*counted, b"WEIGHTS", *(self.score() for _ in range(weights))]

    def _count_of(self, keys: list[bytes]) -> bytes:
        if self.random.random() < 0.04:
            return self.random.choice((b"0", b"-1", b"1", b"3", b"abc", b"4294967296"))
        return b"%d" % len(keys)

    def pattern(self) -> bytes:
        return self.random.choice(PATTERNS)

    def database(self) -> bytes:
        return self.random.choice((b"0", b"0", b"1", b"1", b"2"))

    def wrong_database(self) -> bytes:
        return self.random.choice((b"16", b"-1", b"abc", b"", b"4294967296", b"9223372036854775808"))

    # Values

    def value(self) -> bytes:
        luck = self.random.random()
        if luck < 0.35:
            return self.random.choice(WORDS)
        if luck < 0.65:
            return self.random.choice(SMALL_INTEGERS)
        if luck < 0.75:
            return self.random.choice(BIG_INTEGERS)
        if luck < 0.85:
            return self.random.choice(FLOATS)
        return self.random.choice(ODD_VALUES)

    def word(self) -> bytes:
        return self.random.choice(WORDS)

    def member(self) -> bytes:
        """A field, an element or a member: mostly from a dozen, so that they meet again."""
        luck = self.random.random()
        if luck < 0.5:
            return self.random.choice(WORDS[:6])
        if luck < 0.9:
            return self.random.choice(SMALL_INTEGERS)
        return self.value()

    def many_integers(self) -> list[bytes]:
        """Enough integers to outgrow a small encoding, on either side of the thresholds."""
        count = self.random.choice((100, 128, 129, 511, 512, 513))
        start = self.random.choice((0, 0, -50, 40000, 2**40))
        return [b"%d" % (start + offset) for offset in range(count)]

    def many_pairs(self) -> list[bytes]:
        """Enough distinct pairs to outgrow a small encoding; both halves are numbers."""
        count = self.random.choice((127, 128, 129, 511, 512, 513))
        return [text for number in range(count) for text in (b"%d" % (number % 77), b"m%d" % number)]

    def many_with_score_0(self) -> list[bytes]:
        pairs = self.many_pairs()
        return [text for member in pairs[1::2] for text in (b"0", member)]

    def many_fields(self) -> list[bytes]:
        pairs = self.many_pairs()
        return [pairs[place ^ 1] for place in range(len(pairs))]

    # Whole commands

    def any_command(self) -> list[bytes]:
        return self.nested(self)

    def any_write(self) -> list[bytes]:
        """A plain write of any type, which may meet a key of another type."""
        match self.random.randrange(8):
            case 0 | 1:
                return [b"SET", self.string_key(), self.value()]
            case 2:
                return [b"DEL", self.any_key()]
            case 3:
                return [b"HSET", self.hash_key(), self.member(), self.value()]
            case 4:
                return [b"RPUSH", self.list_key(), self.member()]
            case 5:
                return [b"SADD", self.set_key(), self.member()]
            case 6:
                return [b"ZADD", self.zset_key(), self.score(), self.member()]
            case _:
                return [b"RENAME", self.any_key(), self.any_key()]

    # For SORT

    def number_text(self) -> bytes:
        return self.random.choice((b"1", b"2", b"3", b"4", b"10", b"1.5", b"-1", b"1e1", b"2") * 3 + (b"abc", b"inf"))

    def weight_key(self) -> bytes:
        return b"w_" + self.random.choice((self.number_text, self.member))()

    def weight_hash_key(self) -> bytes:
        return b"h" + self.number_text()

    def sort_pattern(self) -> bytes:
        return self.random.choice(
            (b"w_*", b"w_*", b"h*->weight", b"nosort", b"", b"*", b"missing_*", b"h*->", b"w_*->x", b"->", b"**")
        )

    def get_pattern(self) -> bytes:
        return self.random.choice((b"#", b"#", b"w_*", b"h*->name", b"missing_*", b"nothing", b"h*->", b"s*"))

    # For publish and subscribe

    def channel(self) -> bytes:
        return self.random.choice((b"c1", b"c2", b"c3", b"d1", b"", b"\x00\xff"))

    def channel_pattern(self) -> bytes:
        return self.random.choice((b"c*", b"?1", b"c[12]", b"*", b"c1", b"nothing", b"[", b""))

    # Numbers

    def integer(self) -> bytes:
        luck = self.random.random()
        if luck < 0.75:
            return self.random.choice(SMALL_INTEGERS)
        return self.random.choice(BIG_INTEGERS if luck < 0.93 else NOT_NUMBERS)

    def number(self) -> bytes:
        """For the commands that add floats."""
        luck = self.random.random()
        if luck < 0.35:
            return self.random.choice(SMALL_INTEGERS)
        if luck < 0.8:
            return self.random.choice(FLOATS)
        if luck < 0.88:
            return self.random.choice(BIG_INTEGERS)
        return self.random.choice(INFINITIES if luck < 0.94 else NOT_NUMBERS)

    def score(self) -> bytes:
        luck = self.random.random()
        if luck < 0.6:
            return self.random.choice(SMALL_INTEGERS[:12])
        if luck < 0.9:
            return self.random.choice(FLOATS)
        return self.random.choice(INFINITIES if luck < 0.97 else NOT_NUMBERS)

    def listpack_score(self) -> bytes:
        """For sorted sets that Redis's SORT makes skip lists of: not -0, which those show and listpacks do not; and
        none that sets C's errno when it is read back, for then SORT fails."""
        score = self.score()
        return b"0" if score in (b"-0.0", b"5e-324") else score

    def score_bound(self) -> bytes:
        exclusive = b"(" if self.random.random() < 0.25 else b""
        if self.random.random() < 0.25:
            return exclusive + self.random.choice((b"-inf", b"+inf", b"inf"))
        return exclusive + self.score()

    def lex_bound(self) -> bytes:
        luck = self.random.random()
        if luck < 0.35:
            return self.random.choice((b"-", b"+"))
        if luck < 0.95:
            return self.random.choice((b"[", b"(")) + self.member()
        return self.random.choice((b"a", b"", b"[", b"(", b"-a", b"+a", b"1"))

    def index(self) -> bytes:
        luck = self.random.random()
        if luck < 0.9:
            return b"%d" % self.random.randint(-7, 8)
        return self.random.choice((*BIG_INTEGERS, b"-100", b"100", b"abc", b"1.5", b""))

    def rank(self) -> bytes:
        """Of LPOS: an index but the least integer, which has no opposite; Redis 7.0 answers by chance."""
        index = self.index()
        return b"-1" if index == b"-9223372036854775808" else index

    def offset(self) -> bytes:
        """Of a byte or a bit in a string."""
        if self.random.random() < 0.9:
            return b"%d" % self.random.choice((0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 31, 63, 64, 100, 1000))
        return self.random.choice((b"-1", b"4294967296", b"9223372036854775807", b"abc", b"", b"65536"))

    def count(self) -> bytes:
        if self.random.random() < 0.92:
            return b"%d" % self.random.choice((-2, -1, 0, 1, 1, 1, 2, 2, 3, 4, 5, 10, 1000))
        return self.random.choice((b"abc", b"", b"1.5", b"9223372036854775807", b"9223372036854775808"))

    def random_count(self) -> bytes:
        """Of members drawn at random."""
        return self.random.choice((b"-10", b"-3", b"-1", b"0", b"1", b"2", b"3", b"100", b"100", b"abc", b"1.5"))

    def positive(self) -> bytes:
        return b"%d" % self.random.choice((1, 1, 2, 3, 5, 10, 1000))

    def bit(self) -> bytes:
        return self.random.choice((b"0", b"1", b"1", b"1") * 4 + (b"2", b"-1", b"abc"))

    # Times

    def seconds(self) -> bytes:
        """A relative expire time: far, or one that Redis refuses or takes as gone."""
        return self.random.choice((b"100", b"1000", b"86400", b"100", b"1000", b"0", b"-1", *self._bad_times))

    def millis(self) -> bytes:
        return self.random.choice((b"100000", b"1000500", b"86400000", b"100000", b"0", b"-1", *self._bad_times))

    def unix_seconds(self) -> bytes:
        return self.random.choice((b"4102444800", b"4102444801", b"5000000000", b"1", b"0", b"-1", *self._bad_times))

    def unix_millis(self) -> bytes:
        return self.random.choice((b"4102444800123", b"5000000000000", b"1234567890", b"0", b"-1", *self._bad_times))

    _bad_times = (b"9223372036854775807", b"9223372036854775", b"-9223372036854775808", b"abc", b"1.5", b"")

    def blocking_timeout(self) -> bytes:
        """Two milliseconds, or a text that is refused at once; never one that waits."""
        return self.random.choice((b"0.002",) * 8 + (b"-1", b"abc", b"", b"nan", b"1e300", b"-0.1", b"1 "))

    # Bit fields

    def bit_type(self) -> bytes:
        if self.random.random() < 0.93:
            return self.random.choice(BIT_TYPES)
        return self.random.choice((b"u64", b"i65", b"u0", b"i0", b"x8", b"8", b"", b"u", b"u08"))

    def field_value(self) -> bytes:
        """An integer but the least one, which Redis's OVERFLOW SAT takes for one that is too high."""
        value = self.integer()
        return b"0" if value == b"-9223372036854775808" else value

    def bit_position(self) -> bytes:
        mark = b"#" if self.random.random() < 0.3 else b""
        return mark + self.offset()
