"""Lua scripts at random: values and their conversions, errors, KEYS and ARGV, and the libraries that scripts have.

Every script comes with its keys and arguments. What is promised of no Lua, or is LuaJIT's own, is left out:

* the order in which tables with several fields are gone through, and lengths of lists with holes;
* integers of the bit library past 2^51, and `bit.tohex` with more than eight digits;
* zero bytes in patterns and formats, which end them in the original, and `%q` of control characters, `%s` of what is no
  text, NaN and the smallest numbers in `%e` and `%f`, flags of `%%`;
* the constant -0, which the original makes 0 where the script has a 0, and negative numbers in `tonumber(text, base)`;
* `assert(false, x)` where x is no text, `table.insert` past the end of a list;
* bytes that are no UTF-8 in a status: statuses are text here;
* throwing a table without a text in `err`, which ends Redis 7.0 with a signal;
* where an error comes from that a C function raises which was called as `return f()`: LuaJIT has no frame for that.
"""

from __future__ import annotations

from random import Random

Script = tuple[str, list[str]]
"""A script, and its number of keys, keys and arguments."""

NUMBERS = (
    "0 1 -1 2 7 10 31 32 33 127 128 255 256 -128 -129 32767 32768 65535 65536 -32769 1e3 0.5 -0.5 1.5 2.5 3.99 -3.99 "
    "0.1 1e-5 1e14 1e15 1e16 1e17 -1e15 1e100 -1e100 1e308 4.9e-324 123456789012 2147483647 2147483648 -2147483648 "
    "-2147483649 4294967295 4294967296 4294967297 9007199254740991 9007199254740992 9007199254740993 "
    "-9007199254740993 2^62 2^63 -2^63 -2^63-1025 2^64 1/0 -1/0 0/0 1/3 100/3"
).split()
STRINGS = (
    "''|'a'|'abc'|'ABC def'|'0'|'1'|'-1'|'12.50'|'1e3'|'0x10'|' 7 '|'x y'|'ok'|'err'|'ERR x'|'OK'|'-MY error'|"
    "'two\\r\\nlines'|'\\0'|'a\\0b'|'\\255\\254'|'\\195\\188'|'\"'|'\\\\'|'/'|'\\1\\31\\127'|'nil'|'%'|"
    "'9007199254740993'"
).split("|")


SHOW = (
    "local function show(v) if v == cjson.null then return 'null' end "
    "if type(v) ~= 'table' then return type(v) .. ':' .. tostring(v) end local p = {} "
    "for k, x in pairs(v) do p[#p + 1] = show(k) .. '=' .. show(x) end table.sort(p) "
    "return '{' .. table.concat(p, ',') .. '}' end "
)
"""A function that tells a value with its types."""


class Generator:
    """Makes scripts of one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kinds = [
            self.conversion,
            self.special_table,
            self.thrown,
            self.caught,
            self.reply_function,
            self.command,
            self.resp3,
            self.lists,
            self.json_written,
            self.json_read,
            self.message_packed,
            self.message_read,
            self.struct_packed,
            self.struct_read,
            self.bits,
            self.strings,
            self.patterns,
            self.tables,
            self.formats,
        ]

    def script(self) -> Script:
        """The next one."""
        made = self.random.choice(self.kinds)()
        return made if isinstance(made, tuple) else (made, ["0"])

    @staticmethod
    def shown(call: str, before: str = "") -> str:
        """A script that tells every result of a call with its type."""
        return (
            "local function show(...) local p = {} for i = 1, select('#', ...) do local v = (select(i, ...)) "
            f"p[i] = type(v) .. ':' .. tostring(v) end return p end {before}return (show({call}))"
        )

    # Pieces

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def number(self) -> str:
        if self.random.random() < 0.7:
            return self.random.choice(NUMBERS)
        return repr(self.random.choice((self.random.uniform(-1e6, 1e6), self.random.randint(-(2**40), 2**40))))

    def small(self) -> str:
        return str(self.random.randint(-3, 9))

    def string(self) -> str:
        return self.random.choice(STRINGS)

    def scalar(self) -> str:
        kind = self.random.random()
        if kind < 0.4:
            return self.number()
        if kind < 0.8:
            return self.string()
        return self.pick("nil", "true", "false", "print", "cjson.null", "function() end")

    def value(self, depth: int = 0) -> str:
        if depth > 3 or self.random.random() < 0.6:
            return self.scalar()
        items = [self.value(depth + 1) for _ in range(self.random.randint(0, 4))]
        if self.random.random() < 0.6:
            return "{" + ", ".join(items) + "}"
        # One field, as the order of several is nobody's.
        return (
            "{[" + self.pick("'k'", "'a b'", "1", "2", "7", "1.5", "-1", "true") + "] = " + self.value(depth + 1) + "}"
        )

    def json_value(self, depth: int = 0) -> str:
        if depth > 3 or self.random.random() < 0.5:
            return self.pick(self.number(), self.string(), "true", "false", "cjson.null")
        if self.random.random() < 0.6:
            return "{" + ", ".join(self.json_value(depth + 1) for _ in range(self.random.randint(0, 4))) + "}"
        return "{[" + self.pick("'k'", "'a\"'", "3", "1.5", "-2", "12") + "] = " + self.json_value(depth + 1) + "}"

    # Scripts

    def conversion(self) -> str:
        return f"return {self.value()}"

    def special_table(self) -> str:
        field = self.pick("ok", "err", "double", "map", "set", "big_number", "verbatim_string")
        inner = self.value()
        if field == "ok" and "255" in inner:
            inner = "'x'"
        if field == "verbatim_string" and self.random.random() < 0.7:
            inner = f"{{format = {self.string()}, string = {self.string()}}}"
        if field in ("map", "set") and self.random.random() < 0.6:
            inner = f"{{[{self.string()}] = {self.value()}}}"
        table = f"{{{field} = {inner}}}"
        first = self.pick("", "redis.setresp(3) ")
        return first + self.pick(f"return {table}", f"return {{1, {table}, {self.scalar()}}}")

    def thrown(self) -> str:
        # Redis 7.0 ends with a signal when a table without a text in `err` is thrown.
        value = self.pick(self.scalar(), self.scalar(), f"{{err = {self.string()}}}")
        return self.pick(
            f"error({value})",
            f"error({value}, {self.small()})",
            f"\n\nerror({value})",
            f"assert(false, {self.string()})",
        )

    def caught(self) -> str:
        value = self.pick(self.scalar(), f"{{err = {self.string()}}}")
        call = self.pick(
            f"pcall(error, {value})",
            f"pcall(function() error({value}) end)",
            f"pcall(function() return {value}, {self.scalar()} end)",
            f"xpcall(function() error({value}, 0) end, function(e) return e end)",
            f"pcall(redis.call, {self.string()}, {self.scalar()})",
            f"pcall(function() assert({self.scalar()}, {self.string()}) end)",
        )
        return f"local ok, e = {call} " + self.pick(
            "return {tostring(ok), type(e)}", "return e", "if not ok then error(e) end return 1", "return {e}"
        )

    def reply_function(self) -> str:
        name = self.pick("error_reply", "status_reply")
        text = self.pick(self.string(), self.string(), self.scalar(), "")
        if name == "status_reply" and "255" in text:
            text = "'x'"
        reply = f"redis.{name}({text})"
        return self.pick(f"return {reply}", f"return {{{reply}, 1}}", f"return {reply}.err", f"return {reply}.ok")

    def command(self) -> str:
        words = [
            self.pick(
                "'ECHO'", "'SET'", "'GET'", "'INCRBY'", "'APPEND'", "'LPUSH'", "'NOSUCH'", "'PING'", self.string()
            ),
            *(self.pick("'k'", "'n'", "'l'", self.scalar()) for _ in range(self.random.randint(0, 3))),
        ]
        return f"return redis.{self.pick('call', 'pcall')}({', '.join(words)})"

    def resp3(self) -> str:
        command = self.pick(
            "'HGETALL', 'h'", "'SMEMBERS', 's'", "'ZSCORE', 'z', 'a'", "'ZSCORE', 'z', 'no'", "'GET', 'no'",
            "'MGET', 'str', 'no'", "'ZRANGE', 'z', 0, -1, 'WITHSCORES'", "'ZMSCORE', 'z', 'a', 'no'", "'LPOP', 'no', 2",
            "'CONFIG', 'GET', 'hz'",
            "'HRANDFIELD', 'h', 1, 'WITHVALUES'", "'ZPOPMIN', 'no'", "'ZRANK', 'z', 'no'", "'SISMEMBER', 's', 'a'",
            "'ZADD', 'z', 'INCR', 0, 'a'", "'LPUSH', 'str', 1", "'OBJECT', 'FREQ', 'str'", "'COMMAND', 'COUNT', 1",
        )  # fmt: skip
        version = self.pick("2", "3", "3")
        return f"{SHOW}redis.setresp({version}) local r = redis.pcall({command}) " + self.pick(
            "return r", "return show(r)"
        )

    def lists(self) -> Script:
        words = [self.pick("k", "", "a b", "1", "0.5", "nil") for _ in range(self.random.randint(0, 5))]
        keys = self.pick(*map(str, range(len(words) + 1)), str(len(words) + 1), "-1", "x", "", "01", " 1")
        which, place = self.pick("KEYS", "ARGV"), self.small()
        text = self.pick(
            f"return {which}",
            f"return {{#{which}, {which}[{place}], type({which}[{place}])}}",
            f"{which}[{place}] = {self.scalar()} return {which}",
            f"table.insert({which}, {self.string()}) return {{KEYS, ARGV}}",
            f"table.remove({which}, 1) return {{#KEYS, #ARGV, {which}[1]}}",
            f"return redis.call('ECHO', {which}[{place}])",
            f"return {which}[{place}] + 1",
            f"return {{unpack({which})}}",
            f"{which} = {{}} return {which}",
            f"local n = 0 for _, v in ipairs({which}) do n = n + #v end return n",
        )
        return text, [keys, *words]

    def json_written(self) -> str:
        before, after = "", ""
        if self.random.random() < 0.4:
            before, after = self.random.choice(
                (
                    ("cjson.encode_sparse_array(true) ", "cjson.encode_sparse_array(false)"),
                    ("cjson.encode_sparse_array(false, 0) ", "cjson.encode_sparse_array(false, 2)"),
                    ("cjson.encode_max_depth(2) ", "cjson.encode_max_depth(1000)"),
                    ("cjson.encode_number_precision(3) ", "cjson.encode_number_precision(14)"),
                    ("cjson.encode_invalid_numbers(true) ", "cjson.encode_invalid_numbers(false)"),
                    ("cjson.encode_invalid_numbers('null') ", "cjson.encode_invalid_numbers(false)"),
                    ("cjson.encode_keep_buffer(false) ", "cjson.encode_keep_buffer(true)"),
                )
            )
        value = self.pick(self.json_value(), self.json_value(), self.value())
        return f"{before}local ok, e = pcall(cjson.encode, {value}) {after} return {{tostring(ok), e}}"

    def json_text(self) -> str:
        """JSON with something wrong, mostly."""
        numbers = (
            "0 -0 1 12 -1.5 1e3 1E+2 1e 01 .5 5. +1 0x1F Infinity -inf nan NaN 1.5.2 9007199254740993 1e999".split()
        )

        def value(depth: int) -> str:
            kind = self.random.random()
            if depth > 3 or kind < 0.55:
                strings = (
                    '"a"', '""', '"\\u00fc"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\\n\\/"', '"\\x"', '"', '"\\u12"',
                    '"\\u0000"', '"\t"',
                )  # fmt: skip
                words = ("true", "false", "null", "nul", "True", "")
                return self.random.choice(
                    (self.random.choice(numbers), self.random.choice(strings), self.random.choice(words))
                )
            gap = self.pick("", "", " ", "\n", "\t")
            items = [value(depth + 1) for _ in range(self.random.randint(0, 3))]
            if kind < 0.8:
                return (
                    "["
                    + gap
                    + self.pick(",", ", ", ",", ",", " ").join(items)
                    + self.pick("]", "]", "]", ",]", "", "}")
                )
            field = self.pick('"k"', '"k"', "k", "1", '""') + self.pick(":", ":", " : ", "", "=")
            return "{" + (field + items[0] if items else "") + self.pick("}", "}", "}", ",}", "", "]")

        text = value(0)
        if self.random.random() < 0.3 and text:
            at = self.random.randrange(len(text))
            text = (
                text[:at] + self.pick("", " ", ",", "]", '"', "\\", "x", "0") + text[at + self.random.randint(0, 1) :]
            )
        return text

    def json_read(self) -> Script:
        before, after = self.random.choice(
            (
                ("", ""),
                ("", ""),
                ("cjson.decode_invalid_numbers(false) ", "cjson.decode_invalid_numbers(true)"),
                ("cjson.decode_max_depth(2) ", "cjson.decode_max_depth(1000)"),
            )
        )
        text = f"{SHOW}{before}local ok, e = pcall(cjson.decode, ARGV[1]) {after} return {{tostring(ok), show(e)}}"
        return text, ["0", self.json_text()]

    def message_packed(self) -> str:
        values = ", ".join(self.value() for _ in range(self.random.randint(0, 3)))
        return f"return cmsgpack.pack({values})"

    def bytes(self, *likely: int) -> str:
        pool = [*likely, 0, 1, 127, 128, 255]
        codes = [
            self.random.choice(pool) if self.random.random() < 0.7 else self.random.randrange(256)
            for _ in range(self.random.randint(0, 12))
        ]
        return "'" + "".join(f"\\{code:03d}" for code in codes) + "'"

    def message_read(self) -> str:
        packed = self.bytes(
            0x80, 0x81, 0x90, 0x92, 0xA0, 0xA2, 0xC0, 0xC2, 0xC3, 0xCA, 0xCB, 0xCC, 0xCD, 0xCF, 0xD0, 0xD3, 0xD9, 0xDC
        )
        if self.random.random() < 0.4:
            packed = f"cmsgpack.pack({self.value()})" + self.pick("", ".. '\\1'", ":sub(1, -2)")
        call = self.pick(
            f"cmsgpack.unpack({packed})",
            f"cmsgpack.unpack_one({packed})",
            f"cmsgpack.unpack_one({packed}, {self.small()})",
            f"cmsgpack.unpack_limit({packed}, {self.small()})",
            f"cmsgpack.unpack_limit({packed}, {self.small()}, {self.small()})",
        )
        return f"{SHOW}local r = {{pcall(function() return {{{call}}} end)}} return show(r)"

    def struct_format(self) -> str:
        letters = [
            "b",
            "B",
            "h",
            "H",
            "l",
            "L",
            "T",
            "d",
            "f",
            "x",
            "s",
            "c0",
            "c1",
            "c3",
            "i",
            "I",
            "i1",
            "I2",
            "i3",
            "I8",
            "i9",
            "I33",
        ]
        options = ["<", ">", "!", "!4", "!2", "!3", " ", "!0", "z", "="]
        parts = self.random.choices(letters * 3 + options, k=self.random.randint(0, 5))
        return "'" + "".join(parts) + "'"

    def struct_packed(self) -> str:
        values = [
            self.pick(self.number(), self.number(), self.string(), self.scalar())
            for _ in range(self.random.randint(0, 4))
        ]
        # Beyond 64 bits a conversion is whatever the machine does.
        values = [
            value
            for value in values
            if value not in ("0/0", "1/0", "-1/0") and "e1" not in value and "e308" not in value
        ]
        call = f"struct.pack({', '.join([self.struct_format(), *values])})"
        return self.pick(f"return {call}", f"return {call}", f"return struct.size({self.struct_format()})")

    def struct_read(self) -> str:
        place = self.pick("", f", {self.small()}")
        call = f"struct.unpack({self.struct_format()}, {self.bytes(65, 2)}{place})"
        return self.shown(call)

    def bits(self) -> str:
        numbers = "0 1 -1 255 2147483647 2147483648 -2147483648 4294967295 4294967296 1.5 2.5 -0.5 1e10 '7'".split()
        name = self.pick("tobit", "bnot", "bswap", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol", "ror")
        arguments = self.random.choices(numbers, k=self.random.choice((0, 1, 1, 2, 2, 2, 3)))
        if self.random.random() < 0.1:
            arguments[:1] = [self.pick("'x'", "nil", "{}")]
        if self.random.random() < 0.1:
            return f"return bit.tohex({', '.join([*arguments[:1], self.pick('1', '4', '8', '-4', '0')])})"
        return f"return bit.{name}({', '.join(arguments)})"

    def strings(self) -> str:
        text = self.pick(self.string(), self.string(), self.scalar()).replace("0/0", "1/0")
        call = self.pick(
            f"string.sub({text}, {self.small()}, {self.small()})",
            f"string.byte({text}, {self.small()})",
            f"string.byte({text}, 1, -1)",
            f"string.char({self.small()}, {self.pick('65', '255', '256', '-1', '0.9')})",
            f"string.rep({text}, {self.small()})",
            f"string.reverse({text})",
            f"string.upper({text})",
            f"string.lower({text})",
            f"string.len({text})",
            f"tostring({self.pick(self.number(), self.string(), 'nil', 'true')})",
            f"tonumber({text})",
            f"tonumber({self.string().replace('-', '')}, {self.pick('2', '8', '10', '16', '36', '37', '1')})",
            f"{self.number()} .. ''",
            f"#{text}",
            f"{text} == {self.scalar()}",
            f"{text} < {self.scalar()}",
            f"-{text}",
            f"{self.number()} % {self.pick('3', '-3', '0', '0.5')}",
            f"math.floor({self.number()})",
        )
        return self.shown(call)

    def pattern(self) -> str:
        items = (
            "a", "b", ".", "%a", "%d", "%w", "%s", "%A", "%%", "%.", "[ab]", "[^a]", "[a-c]", "[%a_]", "[]a]", "[^]]",
            "[a-]", "(a)", "(.)",
            "()", "(", ")", "%1", "%2", "%b()", "%bab", "%f[%a]", "%f[^a]", "%f", "[", "%", "^", "$", "-", " ",
        )  # fmt: skip
        parts = []
        for _ in range(self.random.randint(0, 5)):
            parts.append(self.random.choice(items) + self.random.choice(("", "", "", "*", "+", "-", "?")))
        return "'" + self.pick("", "", "^") + "".join(parts) + self.pick("", "", "$") + "'"

    def patterns(self) -> str:
        text = "'" + "".join(self.random.choices("ab(c)1 _.-", k=self.random.randint(0, 9))) + "'"
        pattern = self.pattern()
        replacement = self.pick(
            "'x'",
            "'%0'",
            "'%1'",
            "'<%1%2>'",
            "'%%'",
            "'%'",
            "{a = 'X', b = false}",
            "function(a) return a and 'f' end",
            "function() return nil end",
            "7",
            "function() return {} end",
        )
        call = self.pick(
            f"string.find({text}, {pattern})",
            f"string.find({text}, {pattern}, {self.small()})",
            f"string.find({text}, {pattern}, 1, true)",
            f"string.match({text}, {pattern})",
            f"string.match({text}, {pattern}, {self.small()})",
            f"string.gsub({text}, {pattern}, {replacement})",
            f"string.gsub({text}, {pattern}, {replacement}, {self.small()})",
        )
        if self.random.random() < 0.15:
            each = "r[#r + 1] = tostring(a) .. '|' .. tostring(b) if #r > 50 then break end"
            loop = f"for a, b in string.gmatch({text}, {pattern}) do {each} end"
            return f"local r = {{}} {loop} return r"
        return self.shown(call)

    def tables(self) -> str:
        items = (
            "{"
            + ", ".join(self.pick("1", "2.5", "'a'", "'b'", "3", "true") for _ in range(self.random.randint(0, 5)))
            + "}"
        )
        call = self.pick(
            f"table.concat(t, {self.string()})",
            f"table.concat(t, ',', {self.small()}, {self.small()})",
            "(function() table.insert(t, 'x') return #t end)()",
            "(function() table.insert(t, 1, 'x') return unpack(t) end)()",
            "table.remove(t)",
            "table.remove(t, 1)",
            "(function() table.sort(t) return unpack(t) end)()",
            "(function() table.sort(t, function(a, b) return tostring(a) < tostring(b) end) return unpack(t) end)()",
            f"unpack(t, {self.small()}, {self.small()})",
            f"select({self.small()}, unpack(t))",
            "select('#', unpack(t))",
            "table.maxn(t)",
            "#t",
            "next({})",
            f"rawequal(t, {self.scalar()})",
            f"t[{self.scalar()}]",
            f"(function() t[{self.scalar()}] = 1 return 1 end)()",
        )
        return self.shown(call, f"local t = {items} ")

    def formats(self) -> str:
        letter = self.pick(*"diuxXoceEfgGsq%")
        directive = (
            "%" + self.pick("", "-", "0", "+", " ", "#") + self.pick("", "5", "12") + self.pick("", ".0", ".3", ".14")
        )
        value = self.pick(self.number(), self.string(), self.scalar())
        # The original formats with C's printf: a zero byte ends a text there. It takes nothing but text for a text, and
        # quotes no control characters.
        if letter in "eEfgG" and value in ("0/0", "4.9e-324"):
            value = "1/0"
        if letter in "c%":
            directive, value = "%", "65"
        if letter in "sq":
            value = self.pick(self.number(), "'abc'", "'two\\nlines'", "''", "'\"'")
        if "\\0" in value:
            value = "'x'"
        if letter in "diuxXoc" and any(part in value for part in ("e1", "e308", "/0", "2^6", "9007199254740993")):
            value = "7"
        return f"return string.format('{directive}{letter}|%s', {value}, 'end')"
