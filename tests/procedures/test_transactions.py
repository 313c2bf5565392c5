"""Each call is one transaction: conflicts run it again, an exception leaves nothing, others are served meanwhile."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import pytest
import redis

import peryton
from peryton import Handle
from peryton.exceptions import ConflictError, ConstraintError, ProcedureError, ReplyError

from .conftest import Door, until

SEEDS = [int(os.environ["PERYTON_SEED"])] if "PERYTON_SEED" in os.environ else [1, 2, 3]
ROUNDS = 200 if "PERYTON_LONG" in os.environ else 25


# --- all or nothing ---------------------------------------------------------------------------------------------------


def step(db: Handle, dice: random.Random) -> None:
    """Changes something."""
    key, number = f"k{dice.randrange(4)}", dice.randrange(8)
    choice = dice.randrange(9)
    if choice == 0:
        db.command("SET", f"s{number}", dice.random())
    elif choice == 1:
        db.command("DEL", key, f"s{number}")
    elif choice == 2:
        db.command("RPUSH", f"list-{key}", number)
    elif choice == 3:
        db.command("HSET", f"hash-{key}", number, key)
    elif choice == 4:
        db.command("ZADD", f"zset-{key}", number, key)
    elif choice == 5:
        db.sql("REPLACE INTO t VALUES (?, ?)", number, dice.randrange(1000))
    elif choice == 6:
        db.sql("DELETE FROM t WHERE id % 3 = ?", number % 3)
    elif choice == 7:
        db.table("t").put({"id": number + 100, "n": None})
    else:
        db.sql("UPDATE t SET n = n + 1 WHERE id >= ?", number)


def state(store: peryton.Database) -> Any:
    """All keys with their values, and all rows."""
    values: dict[str, Any] = {}
    for key in sorted(store.command("KEYS", "*")):
        values[key] = _value(store, key)
    return values, list(store.sql("SELECT * FROM t ORDER BY id")), store.command("TABLE.INFO", "t")[b"rows"]


def _value(store: peryton.Database, key: bytes) -> Any:
    reads = {
        "string": ("GET", key),
        "list": ("LRANGE", key, 0, -1),
        "hash": ("HGETALL", key),
        "zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
    }
    return store.command(*reads[store.command("TYPE", key)])


@pytest.mark.parametrize("seed", SEEDS)
def test_an_exception_at_any_step_leaves_keys_and_tables_as_they_were(store: peryton.Database, seed: int) -> None:
    store.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
    store.sql("CREATE INDEX by_n ON t (n)")

    @store.procedure
    @peryton.procedure(name="work")
    def work(db: Handle, seed: int, steps: int, fails: bool, by_statement: bool) -> int:
        dice = random.Random(seed)
        for _ in range(steps):
            step(db, dice)
        if fails and by_statement:
            db.sql("INSERT INTO t VALUES (1, 1), (1, 2)")
        elif fails:
            raise KeyError("enough")
        return steps

    dice = random.Random(seed)
    for round_ in range(ROUNDS):
        # What a procedure does that comes to its end is what the same steps do.
        store.call("work", dice.randrange(10**6), dice.randrange(1, 8), False, False)
        before = state(store)
        with pytest.raises((ProcedureError, ConstraintError)):
            store.call("work", dice.randrange(10**6), dice.randrange(30), True, dice.random() < 0.5)
        assert state(store) == before, f"seed {seed}, round {round_}"


def test_errors_of_the_store_keep_their_code_and_those_of_python_their_place(door: Door) -> None:
    door.sql("CREATE TABLE t (id INTEGER PRIMARY KEY)")

    @door.register
    def twice(db: Handle) -> None:
        db.sql("INSERT INTO t VALUES (1), (1)")

    @door.register
    def wrong(db: Handle) -> None:
        raise ValueError("two\nlines")

    @door.register
    def own(db: Handle) -> None:
        db.sql("INSERT INTO t VALUES (2)")
        raise ReplyError("only 3 left", "OUTOFSTOCK")

    with pytest.raises(ConstraintError, match="CONSTRAINT 23505"):
        door.call("twice")
    with pytest.raises(ProcedureError, match=r"PROCEDURE wrong: ValueError: two lines \(test_transactions.py:\d+\)"):
        door.call("wrong")
    with pytest.raises(ReplyError, match="OUTOFSTOCK only 3 left") as caught:
        door.call("own")
    assert caught.value.code == "OUTOFSTOCK"
    assert door.sql("SELECT count(*) FROM t").scalar() == 0


def test_it_may_not_end_its_transaction_itself(store: peryton.Database) -> None:
    refusals: list[str] = []

    @store.procedure
    def work(db: Handle) -> None:
        for statement in ("BEGIN", "COMMIT", "ROLLBACK"):
            with pytest.raises(ReplyError) as caught:
                db.sql(statement)
            refusals.append(str(caught.value))
        for command in (("MULTI",), ("SELECT", "3"), ("SUBSCRIBE", "c")):
            with pytest.raises(ValueError, match="belongs to one session"):
                db.command(*command)

    store.call("work")
    assert all("not allowed in a procedure" in refusal for refusal in refusals)


def test_the_keyspace_is_its_caller_s(store: peryton.Database) -> None:
    store.register(peryton.procedure(name="put")(lambda db: db.command("SET", "k", "v")))
    other = store.redis(db=3)
    assert other.execute_command("CALL", "put") == b"OK"
    assert (other.get("k"), store.command("GET", "k")) == (b"v", None)


# --- conflicts --------------------------------------------------------------------------------------------------------


def test_two_that_change_one_row_and_one_key_lose_nothing(store: peryton.Database) -> None:
    store.sql("CREATE TABLE counters (id INTEGER PRIMARY KEY, n INTEGER)")
    store.sql("INSERT INTO counters VALUES (1, 0)")

    @store.procedure
    @peryton.procedure(retries=1000)
    def add(db: Handle, amount: int) -> None:
        n = db.sql("SELECT n FROM counters WHERE id = 1").scalar()
        key = int(db.command("GET", "k") or 0)
        db.sql("UPDATE counters SET n = ? WHERE id = 1", n + amount)
        db.command("SET", "k", key + amount)

    def run() -> None:
        for _ in range(50):
            store.call("add", 2)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.sql("SELECT n FROM counters").scalar() == 400
    assert store.command("GET", "k") == b"400"


def test_a_conflict_runs_it_again_up_to_its_retries(store: peryton.Database) -> None:
    runs: list[int] = []
    losing = 3

    @store.procedure
    @peryton.procedure(retries=5)
    def work(db: Handle) -> int:
        db.command("INCR", "n")
        runs.append(len(runs))
        if len(runs) <= losing:
            outside(lambda: store.command("INCR", "n"))
        return len(runs)

    assert store.call("work") == 4
    assert store.command("GET", "n") == b"4"
    (about,) = store.command("PROCEDURE", "LIST")
    assert about[b"conflicts"] == 3

    runs.clear()
    losing = 100
    with pytest.raises(ConflictError, match="40001"):
        store.call("work")
    assert len(runs) == 6
    assert store.command("GET", "n") == b"10"


def outside(work: Any) -> None:
    """Does something on another thread, as another client would."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


# --- the handle -------------------------------------------------------------------------------------------------------


def test_a_handle_ends_with_its_call(store: peryton.Database) -> None:
    kept: list[Handle] = []
    store.register(peryton.procedure(name="keep")(lambda db: kept.append(db)))
    store.call("keep")
    store.call("keep")
    for handle in kept:
        with pytest.raises(ProcedureError, match="the call that this handle belonged to has ended"):
            handle.command("GET", "k")
        with pytest.raises(ProcedureError, match="has ended"):
            handle.sql("SELECT 1")


def test_other_handles_of_its_store_refuse(store: peryton.Database) -> None:
    client = store.redis(single_connection_client=True)
    statement = "SELECT 1"
    store.sql(statement)
    ways: dict[str, Any] = {
        "command": lambda: store.command("GET", "k"),
        "sql": lambda: store.sql(statement),
        "call": lambda: store.call("work", "sql"),
        "pipeline": lambda: store.pipeline([("GET", "k")]),
        "redis": lambda: client.get("k"),
    }

    @store.procedure
    def work(db: Handle, way: str) -> None:
        ways[way]()

    for way in ways:
        with pytest.raises(ReplyError, match="works through its own handle"):
            store.call("work", way)
    # Outside they work again, and other stores do all the time.
    assert client.get("k") is None
    with peryton.open() as other:
        ways["command"] = lambda: other.command("SET", "k", "v")
        store.call("work", "command")
        assert other.command("GET", "k") == b"v"


def test_procedures_call_each_other_as_functions(store: peryton.Database) -> None:
    @store.procedure
    @peryton.procedure(name="inner")
    def inner(db: Handle, key: str) -> int:
        return int(db.command("INCR", key))

    @store.procedure
    def outer(db: Handle) -> int:
        return inner(db, "k") + inner(db, "k")

    @store.procedure
    def wrong(db: Handle) -> Any:
        return db.command("CALL", "inner", "k")

    assert store.call("outer") == 3
    with pytest.raises(ReplyError, match="a procedure calls another one as a function"):
        store.call("wrong")
    with pytest.raises(ReplyError, match="must be ended first"), store.transaction() as t:
        t.command("CALL", "inner", "k")
    assert (
        store.redis()
        .pipeline(transaction=True)
        .execute_command("CALL", "inner", "k")
        .execute(raise_on_error=False)[0]
        .args[0]
        .startswith("inner is a Python procedure: MULTI and EXEC cannot call it")
    )


# --- others meanwhile -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["embedded", "tcp"])
def test_others_are_served_while_one_spins_in_python(store: peryton.Database, kind: str) -> None:
    running, stop = threading.Event(), threading.Event()

    @store.procedure
    def spin(db: Handle) -> int:
        db.sql("SELECT 1")
        running.set()
        turns = 0
        while not stop.is_set():
            turns += 1
        return turns

    server = store.serve()
    other = store.redis() if kind == "embedded" else redis.Redis(port=server.port)
    caller = threading.Thread(target=lambda: answers.append(store.call("spin")))
    answers: list[int] = []
    caller.start()
    running.wait()
    # It is known to run until it is told to stop, and all of this is answered before.
    for number in range(20):
        assert other.set("k", number)
        assert other.get("k") == str(number).encode()
        assert other.execute_command("SQL", "SELECT 1")[1] == [1]
    assert answers == []
    stop.set()
    caller.join()
    assert answers[0] > 0


def test_calls_beyond_the_threads_wait_their_turn(store: peryton.Database) -> None:
    gate, inside = threading.Event(), threading.Semaphore(0)

    @store.procedure
    def hold(db: Handle, number: int) -> int:
        inside.release()
        gate.wait()
        return number

    answers: list[int] = []
    callers = [threading.Thread(target=lambda n=n: answers.append(store.call("hold", n))) for n in range(12)]
    for caller in callers:
        caller.start()
    for _ in range(4):
        assert inside.acquire(timeout=60)
    # The others have no thread to run on.
    assert not inside.acquire(blocking=False)
    gate.set()
    for caller in callers:
        caller.join()
    assert sorted(answers) == list(range(12))


def test_at_most_so_many_wait(store: peryton.Database) -> None:
    gate, running = threading.Event(), threading.Event()

    @store.procedure
    def hold(db: Handle) -> None:
        running.set()
        gate.wait()

    client = store.redis(single_connection_client=True)
    clients = [store._store.session(0) for _ in range(1010)]  # type: ignore[union-attr]
    client.execute_command("CONFIG", "SET", "python-time-limit", 0)
    refused = 0
    for session in clients:
        session.send([("CALL", "hold")])
        refused += session.pending(0.0)
    # Four run, or are about to.
    until(running.is_set)
    assert 6 <= refused <= 10
    gate.set()
    for session in clients:
        session.receive(60, error=str)
        session.close()
