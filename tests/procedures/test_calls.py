"""What procedures are given and give back, through every door."""

from __future__ import annotations

import contextlib
import datetime
from decimal import Decimal
from typing import Any

import pytest
import redis

import peryton
from peryton import Handle
from peryton.exceptions import ProcedureError, ReplyError

from .conftest import Door


def test_a_procedure_s_work_is_there_when_its_reply_is(door: Door) -> None:
    @door.register
    @peryton.procedure
    def note(db: Handle, name: str, count: int = 1) -> int:
        """Notes a name."""
        db.command("INCRBY", name, count)
        return int(db.command("GET", name))

    assert door.call("note", "a") == 1
    assert door.call("NOTE", "a", 41) == 42
    assert door.sql("CALL note('a', 58)").one() == (100,)
    assert door.sql("CALL note(?, ?)", ["a", 1]).columns == ("note",)
    assert door.sql("SELECT value FROM string('a')").scalar() == "101"


def test_tables_by_sql_and_by_key(door: Door) -> None:
    door.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")

    @door.register
    def work(db: Handle) -> list[Any]:
        db.sql("INSERT INTO t VALUES (?, ?)", 1, "one")
        db.sql("INSERT INTO t VALUES (?, ?)", [2, "two"])
        db.sql("INSERT INTO t VALUES (:id, :name)", {"id": 3, "name": "three"})
        table = db.table("t")
        table.put({"id": 4, "name": "four"})
        table.delete(1)
        assert db.sql_many("INSERT INTO t VALUES (?, ?)", [(5, "five"), (6, "six")]) == 2
        assert db.pipeline([("SET", "k", "v"), ("GET", "k")]) == ["OK", b"v"]
        with contextlib.suppress(ReplyError), db.savepoint():
            db.sql("DELETE FROM t")
            db.sql("SELECT nonsense")
            raise AssertionError("the statement was taken")
        return [table.get(4), db.sql("SELECT count(*) FROM t").scalar()]

    assert door.call("work") == [{"id": 4, "name": "four"}, 5]
    assert door.sql("SELECT id FROM t ORDER BY id").column() == [2, 3, 4, 5, 6]


GIVEN = [
    None,
    True,
    0,
    -7,
    2**80,
    1.5,
    "",
    "text",
    "schön",
    b"",
    b"\x00\xff",
    [],
    [1, "two", [3.0, None]],
    {"a": 1, "b": [True, False]},
    {},
]


@pytest.mark.parametrize("value", GIVEN, ids=repr)
def test_what_it_gives_comes_back(door: Door, value: Any) -> None:
    door.register(peryton.procedure(name="give")(lambda db: value))
    assert door.call("give") == value
    assert type(door.call("give")) is type(value)
    assert door.sql("CALL give()").one() == (value,)


def test_a_tuple_comes_back_as_a_list_a_set_too_and_rows_as_those_of_a_statement(door: Door) -> None:
    door.register(peryton.procedure(name="give")(lambda db: ((1, 2), {"x"}, bytearray(b"b"), memoryview(b"m"))))
    assert door.call("give") == [[1, 2], ["x"], b"b", b"m"]
    door.register(peryton.procedure(name="rows")(lambda db: db.sql("SELECT 1 AS a, 'x' AS b UNION SELECT 2, 'y'")))
    assert door.sql("CALL rows()").dicts() == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert [list(map(str, row)) for row in door.call("rows")][1:] == [["1", "x"], ["2", "y"]]
    door.register(peryton.procedure(name="none")(lambda db: db.sql("SELECT 1 AS a WHERE 0")))
    assert (door.sql("CALL none()").columns, len(door.sql("CALL none()"))) == (("a",), 0)


def test_what_is_no_reply_is_said(door: Door) -> None:
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    for value, why in [
        (object(), "and no object"),
        ([1, {2: object()}], "and no object"),
        (1j, "and no complex"),
        (datetime.date(2020, 1, 1), "and no date"),
        (deep, "nested deeper"),
        (10**5000, "cannot be read"),
    ]:
        door.register(peryton.procedure(name="give")(lambda db, value=value: value))
        with pytest.raises(ProcedureError, match=why) as caught:
            door.call("give")
        assert str(caught.value).startswith("PROCEDURE give: ")


def test_replies_of_both_protocols(client: redis.Redis, store: peryton.Database) -> None:
    store.register(peryton.procedure(name="give")(lambda db: [None, True, 1.5, "text", b"b", {"k": 1}]))
    expected: list[Any] = [None, True, 1.5, b"text", b"b", {b"k": 1}]
    if client.protocol == 2:
        expected = [None, 1, b"1.5", b"text", b"b", [b"k", 1]]
    assert client.execute_command("CALL", "give") == expected
    assert client.execute_command("FCALL", "give", 0) == expected
    assert client.execute_command("SQL", "CALL give()") == [[b"give"], [expected]]


# --- arguments --------------------------------------------------------------------------------------------------------

DAY, INSTANT = datetime.date(2026, 11, 30), datetime.datetime(2026, 11, 30, 12, 30)

# For each annotation: what values (of db.call and SQL) and words (of CALL and FCALL) become, and which are refused.
TABLE: list[tuple[Any, dict[Any, Any], list[Any], dict[str, Any], list[str]]] = [
    (int, {5: 5, -1: -1}, ["5", 1.5, b"5", None], {"5": 5, "-12": -12, "007": 7}, ["", "x", "1.5", "1_0", " 1"]),
    (
        float,
        {1.5: 1.5, 2: 2.0},
        ["1.5", b"1", None],
        {"1.5": 1.5, "1e3": 1000.0, "-.5": -0.5},
        ["", "x", " 1", "1_0", "nan"],
    ),
    (str, {"a": "a", 5: "5", "": ""}, [1.5, b"a", None], {"a": "a", "5": "5", "": ""}, ["\udcff"]),
    (bytes, {b"\xff": b"\xff", "a": b"a", 5: b"5"}, [1.5, None], {"a": b"a", "\udcff": b"\xff"}, []),
    (bool, {1: True, 0: False}, [2, "true", None], {"1": True, "FALSE": False}, ["2", "yes", ""]),
    (None, {None: None}, [0, ""], {}, ["", "None"]),
    (int | None, {None: None, 5: 5}, ["5", 1.5], {"5": 5}, ["", "x"]),
    (int | str, {5: 5, "5": "5", "a": "a"}, [None, 1.5], {"5": 5, "a": "a"}, ["\udcff"]),
    (datetime.date, {"2026-11-30": DAY, DAY: DAY}, [20261130, "soon"], {"2026-11-30": DAY}, ["soon"]),
    (datetime.datetime, {"2026-11-30 12:30": INSTANT, INSTANT: INSTANT}, ["soon"], {"2026-11-30T12:30": INSTANT}, [""]),
    (Decimal, {"1.50": Decimal("1.50"), 2: Decimal(2)}, ["x", 1.5], {"1.50": Decimal("1.50")}, ["x"]),
    (list[int], {"[1, 2]": [1, 2]}, ["[1, 'x']", '["x"]', "{}", 1], {"[1]": [1]}, ["1", "[true]", "["]),
    (dict[str, Any], {'{"a": [1]}': {"a": [1]}}, ["[]", "x"], {"{}": {}}, ["", "[]"]),
    (list, {"[1, null]": [1, None]}, ["{}"], {"[]": []}, ["{}"]),
    (Any, {5: 5, "a": "a", b"\xff": b"\xff", None: None, 1.5: 1.5}, [], {"5": b"5", "a": b"a"}, []),
]


@pytest.mark.parametrize(
    ("wanted", "values", "bad_values", "words", "bad_words"), TABLE, ids=lambda value: str(value)[:40]
)
def test_the_table_of_conversions(
    store: peryton.Database,
    wanted: Any,
    values: dict[Any, Any],
    bad_values: list[Any],
    words: dict[str, Any],
    bad_words: list[str],
) -> None:
    seen: list[Any] = []

    def take(db: Handle, value: Any) -> None:
        seen.append(value)

    take.__annotations__["value"] = wanted
    store.register(peryton.procedure(name="take")(take))

    def asks(value: Any) -> list[Any]:
        """The value through each way of asking with values."""
        seen.clear()
        store.call("take", value)
        store.sql("CALL take(?)", [value])
        return list(seen)

    def words_ask(word: str) -> list[Any]:
        seen.clear()
        store.command("CALL", "take", word)
        store.command("FCALL", "take", 1, word)
        store.command("FCALL", "take", 0, word)
        return list(seen)

    for value, expected in values.items():
        assert asks(value) == [expected, expected]
        assert [type(each) for each in seen] == [type(expected)] * 2
    for word, expected in words.items():
        assert words_ask(word) == [expected] * 3
        assert [type(each) for each in seen] == [type(expected)] * 3
    for value in bad_values:
        with pytest.raises(ProcedureError, match=r"PROCEDURE take: parameter value wants .*, given"):
            asks(value)
    for word in bad_words:
        with pytest.raises(ProcedureError, match=r"PROCEDURE take: parameter value wants .*, given the word"):
            words_ask(word)


def test_errors_name_procedure_parameter_wanted_and_given(door: Door) -> None:
    @door.register
    def pay(db: Handle, account: int, amount: float | None, note: str = "") -> None:
        pass

    for args, message in [
        ((), "PROCEDURE pay(account: int, amount: float | None, note: str = '') takes 2 to 3 arguments, 0 given"),
        ((1, 2, "x", 4), "takes 2 to 3 arguments, 4 given"),
        (("x", 1), "PROCEDURE pay: parameter account wants int, given str 'x'"),
        ((1, "x" * 100), "parameter amount wants float or NULL, given str 'xxx"),
        ((None, 1), "parameter account wants int, given NULL"),
    ]:
        with pytest.raises(ProcedureError) as caught:
            door.call("pay", *args)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 200


def test_all_further_arguments(door: Door) -> None:
    @door.register
    def add(db: Handle, first: int, *more: int) -> int:
        return first + sum(more)

    assert door.call("add", 1) == 1
    assert door.call("add", 1, 2, 3) == 6
    with pytest.raises(ProcedureError, match="parameter more wants int"):
        door.call("add", 1, 2, "x")
    with pytest.raises(ProcedureError, match="takes at least 1 arguments"):
        door.call("add")


def test_lists_and_dictionaries_travel_as_json(door: Door) -> None:
    @door.register
    def count(db: Handle, names: list[str], about: dict[str, Any]) -> list[Any]:
        return [len(names), about]

    assert door.call("count", ["a", "b"], {"x": [1]}) == [2, {"x": [1]}]


def test_what_cannot_be_a_procedure_is_said_at_once(store: peryton.Database) -> None:
    async def later(db: Handle) -> None: ...
    def bare() -> None: ...
    def named(db: Handle, *, key: int) -> None: ...
    def strange(db: Handle, value: complex) -> None: ...
    def unknown(db: Handle, value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def keyed(db: Handle, value: dict[int, str]) -> None: ...
    def listed(db: Handle, value: [int]) -> None: ...  # type: ignore[valid-type]

    for function, why in [
        (later, "plain function"),
        (bare, "its first parameter is the handle"),
        (named, "key can be given by name alone"),
        (strange, "parameter value cannot be complex"),
        (unknown, "its annotations cannot be read"),
        (keyed, "keys of JSON are str"),
        (listed, "parameter value cannot be"),
        (7, "a procedure is a function"),
    ]:
        with pytest.raises(TypeError, match=why):
            store.register(function)  # type: ignore[arg-type]
    for name in ["", "a b", "1a", "a(", "ä"]:
        with pytest.raises(ValueError, match="is no name"):
            peryton.procedure(name=name)(lambda db: None)
    assert store.command("PROCEDURE", "LIST") == []


def test_list_tells_of_them_and_of_their_use(store: peryton.Database) -> None:
    @store.procedure
    @peryton.procedure(retries=3, read_only=True)
    def look(db: Handle, key: str) -> object:
        """Looks at a key.

        More about it.
        """
        return db.command("GET", key)

    store.call("look", "k")
    with pytest.raises(ProcedureError):
        store.call("look")
    (about,) = store.command("PROCEDURE", "LIST")
    text = {name.decode(): value.decode() if isinstance(value, bytes) else value for name, value in about.items()}
    assert text.pop("usec") >= text.pop("usec_max") >= text.pop("usec_p99") > 0
    assert text == {
        "name": "look",
        "language": "Python",
        "signature": "(key: str)",
        "description": "Looks at a key.",
        "read_only": 1,
        "retries": 3,
        "calls": 2,
        "failed": 1,
        "conflicts": 0,
    }
    assert store.command("FUNCTION", "LIST") == []
    told = "SELECT routine_name, external_language, flags, calls, failures FROM information_schema.routines"
    assert list(store.sql(told)) == [("look", "PYTHON", "no-writes", 2, 1)]
    assert "routine_look:calls=2," in store.command("INFO", "routines")


def test_one_that_only_reads_cannot_write(store: peryton.Database) -> None:
    store.register(peryton.procedure(name="look", read_only=True)(lambda db: db.command("GET", "k")))
    store.register(peryton.procedure(name="put", read_only=True)(lambda db: db.command("SET", "k", "v")))
    store.register(peryton.procedure(name="free")(lambda db: db.command("SET", "k", "v")))
    assert store.command("FCALL_RO", "look", 0) is None
    with pytest.raises(ReplyError, match="READ ONLY"):
        store.command("FCALL_RO", "put", 0)
    with pytest.raises(ReplyError, match="Can not execute a script with write flag"):
        store.command("FCALL_RO", "free", 0)
    assert store.command("GET", "k") is None


def test_a_lua_function_and_a_procedure(store: peryton.Database) -> None:
    library = "#!lua name=l\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"
    store.command("FUNCTION", "LOAD", library)
    assert store.call("twice", 21) == 42
    assert store.sql("CALL twice(21)").one() == (42,)
    with pytest.raises(ReplyError, match="has a function twice already"):
        store.register(peryton.procedure(name="twice")(lambda db: None))
    store.register(peryton.procedure(name="both")(lambda db: db.command("FCALL", "twice", 0, 4) + 1))
    assert store.call("both") == 9
    with pytest.raises(ReplyError, match="both is a Python procedure: a script or Lua function cannot call it"):
        store.command("EVAL", "return redis.call('CALL', 'both')", 0)
    with pytest.raises(ReplyError, match="there is no procedure nothing"):
        store.call("nothing")
