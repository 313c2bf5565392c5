"""Clients that change keys and tables, and know what each reply has promised them.

A client keeps to names of its own, so what is found after a crash can be told client by client: it must be the state
after one of the steps between the last one answered and the last one sent.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.resp import NIL_BULK, Connection, ConnectionClosed, Error, encode


@dataclass
class Model:
    """What one client's keys and tables hold."""

    strings: dict[bytes, bytes] = field(default_factory=dict)
    items: list[bytes] = field(default_factory=list)
    fields: dict[bytes, bytes] = field(default_factory=dict)
    members: set[bytes] = field(default_factory=set)
    scores: dict[bytes, int] = field(default_factory=dict)
    rows: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    tables: set[bytes] = field(default_factory=set)
    is_indexed: bool = False
    #: Has the table the column that comes and goes?
    is_wide: bool = False
    #: Are inserted rows counted by a trigger, and how many were?
    is_watched: bool = False
    counted: int = 0

    def insert(self, rows: dict[int, tuple[int, bytes]]) -> None:
        """New rows, as INSERT makes them."""
        self.rows.update(rows)
        if self.is_watched:
            self.counted += len(rows)


Request = tuple[bytes | str | int, ...]


@dataclass
class Step:
    """Requests that together are one step, and what the step does. The last request's reply tells that it was done."""

    requests: list[Request]
    apply: Callable[[Model], None]


LUA = "redis.call('SET', KEYS[1], ARGV[1]); redis.call('RPUSH', KEYS[2], ARGV[1]); return 1"


class Workload:
    """One client's steps, at random."""

    def __init__(self, number: int, seed: int) -> None:
        self.prefix = f"c{number}"
        self.random = random.Random(seed * 1000 + number)
        self.ids = 0

    def key(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    def prepare(self) -> list[Request]:
        """Requests that make what the steps need."""
        count = f"redis.register_function('{self.prefix}_count', function() redis.call('INCR', '{self.key('c')}') end)"
        return [
            ("SQL", f"CREATE TABLE IF NOT EXISTS {self.prefix} (id INT PRIMARY KEY, n INT, t TEXT)"),
            ("FUNCTION", "LOAD", "REPLACE", f"#!lua name={self.prefix}\n{count}"),
        ]

    def step(self, model: Model) -> Step:
        """The next step, which will find `model`."""
        makers = [
            self._string, self._string, self._append, self._rename, self._list, self._hash, self._set, self._zset,
            self._delete, self._insert, self._insert, self._update, self._remove, self._multi, self._script,
            self._transaction, self._transaction,
        ]  # fmt: skip
        if self.random.random() < 0.05:
            makers = [self._table, self._index, self._column, self._trigger]
        return self.random.choice(makers)(model)

    def _value(self) -> bytes:
        length = self.random.choice([1, 8, 40, 40, 40, 700, 5000])
        return self.random.randbytes(length // 2 + 1).hex().encode()[:length]

    def _name(self) -> bytes:
        return b"%d" % self.random.randrange(20)

    def _string(self, _: Model) -> Step:
        name, value = self._name(), self._value()
        return Step([("SET", self.key("s" + name.decode()), value)], lambda m: m.strings.__setitem__(name, value))

    def _append(self, _: Model) -> Step:
        name, value = self._name(), self._value()

        def apply(m: Model) -> None:
            m.strings[name] = m.strings.get(name, b"") + value

        return Step([("APPEND", self.key("s" + name.decode()), value)], apply)

    def _rename(self, model: Model) -> Step:
        if not model.strings:
            return self._string(model)
        source, target = self.random.choice(sorted(model.strings)), self._name()
        names = [self.key("s" + name.decode()) for name in (source, target)]
        return Step([("RENAME", *names)], lambda m: m.strings.__setitem__(target, m.strings.pop(source)))

    def _list(self, _: Model) -> Step:
        value = self._value()
        if self.random.random() < 0.4:
            return Step([("RPOP", self.key("l"))], lambda m: m.items.pop() and None if m.items else None)
        if self.random.random() < 0.5:
            return Step([("LPUSH", self.key("l"), value)], lambda m: m.items.insert(0, value))
        return Step([("RPUSH", self.key("l"), value)], lambda m: m.items.append(value))

    def _hash(self, _: Model) -> Step:
        name, value = self._name(), self._value()
        if self.random.random() < 0.3:
            return Step([("HDEL", self.key("h"), name)], lambda m: m.fields.pop(name, None) and None)
        return Step([("HSET", self.key("h"), name, value)], lambda m: m.fields.__setitem__(name, value))

    def _set(self, _: Model) -> Step:
        name = self._name()
        if self.random.random() < 0.4:
            return Step([("SREM", self.key("m"), name)], lambda m: m.members.discard(name))
        return Step([("SADD", self.key("m"), name)], lambda m: m.members.add(name))

    def _zset(self, _: Model) -> Step:
        name, score = self._name(), self.random.randrange(1000)
        if self.random.random() < 0.3:
            return Step([("ZREM", self.key("z"), name)], lambda m: m.scores.pop(name, None) and None)
        return Step([("ZADD", self.key("z"), score, name)], lambda m: m.scores.__setitem__(name, score))

    def _delete(self, _: Model) -> Step:
        def apply(m: Model) -> None:
            m.items, m.fields = [], {}

        return Step([("DEL", self.key("l"), self.key("h"))], apply)

    def _insert(self, _: Model) -> Step:
        rows = {}
        for _row in range(self.random.choice([1, 1, 1, 30])):
            self.ids += 1
            rows[self.ids] = (self.random.randrange(100), self._value())
        places = ", ".join(["(?, ?, ?)"] * len(rows))
        values = [value for number, row in rows.items() for value in (number, *row)]
        return Step(
            [("SQL", f"INSERT INTO {self.prefix} (id, n, t) VALUES {places}", *values)], lambda m: m.insert(rows)
        )

    def _update(self, model: Model) -> Step:
        n = self.random.randrange(100)

        def apply(m: Model) -> None:
            m.rows = {number: (row[0] + 100 if row[0] < n else row[0], row[1]) for number, row in m.rows.items()}

        return Step([("SQL", f"UPDATE {self.prefix} SET n = n + 100 WHERE n < ?", n)], apply)

    def _remove(self, _: Model) -> Step:
        n = self.random.randrange(200)

        def apply(m: Model) -> None:
            m.rows = {number: row for number, row in m.rows.items() if row[0] != n}

        return Step([("SQL", f"DELETE FROM {self.prefix} WHERE n = ?", n)], apply)

    def _multi(self, _: Model) -> Step:
        name, value = self._name(), self._value()
        self.ids += 1
        number = self.ids

        def apply(m: Model) -> None:
            m.strings[name] = value
            m.items.append(value)
            m.insert({number: (1, value)})

        return Step(
            [
                ("MULTI",),
                ("SET", self.key("s" + name.decode()), value),
                ("RPUSH", self.key("l"), value),
                ("SQL", f"INSERT INTO {self.prefix} (id, n, t) VALUES (?, 1, ?)", number, value),
                ("EXEC",),
            ],
            apply,
        )

    def _script(self, _: Model) -> Step:
        name, value = self._name(), self._value()

        def apply(m: Model) -> None:
            m.strings[name] = value
            m.items.append(value)

        return Step([("EVAL", LUA, 2, self.key("s" + name.decode()), self.key("l"), value)], apply)

    def _transaction(self, _: Model) -> Step:
        name, value = self._name(), self._value()
        self.ids += 2
        number = self.ids
        ends = self.random.random() < 0.8

        def apply(m: Model) -> None:
            if ends:
                m.strings[name] = value
                m.insert({number - 1: (5, value), number: (6, name)})

        insert = f"INSERT INTO {self.prefix} (id, n, t) VALUES (?, 5, ?), (?, 6, ?)"
        return Step(
            [
                ("BEGIN",),
                ("SQL", insert, number - 1, value, number, name),
                ("SET", self.key("s" + name.decode()), value),
                ("COMMIT",) if ends else ("ROLLBACK",),
            ],
            apply,
        )

    def _table(self, model: Model) -> Step:
        if model.tables and self.random.random() < 0.5:
            table = self.random.choice(sorted(model.tables))
            return Step([("SQL", f"DROP TABLE {table.decode()}")], lambda m: m.tables.discard(table))
        self.ids += 1
        table = f"{self.prefix}_{self.ids}".encode()
        text = f"CREATE TABLE {table.decode()} (a INT PRIMARY KEY USING BTREE, b TEXT NOT NULL DEFAULT 'x')"
        return Step([("SQL", text)], lambda m: m.tables.add(table))

    def _index(self, model: Model) -> Step:
        name = f"{self.prefix}_n"
        if model.is_indexed:
            return Step([("SQL", f"DROP INDEX {name}")], lambda m: setattr(m, "is_indexed", False))
        return Step([("SQL", f"CREATE INDEX {name} ON {self.prefix} (n)")], lambda m: setattr(m, "is_indexed", True))

    def _column(self, model: Model) -> Step:
        if model.is_wide:
            return Step([("SQL", f"ALTER TABLE {self.prefix} DROP w")], lambda m: setattr(m, "is_wide", False))
        text = f"ALTER TABLE {self.prefix} ADD w INT NOT NULL DEFAULT 7"
        return Step([("SQL", text)], lambda m: setattr(m, "is_wide", True))

    def _trigger(self, model: Model) -> Step:
        if model.is_watched:
            text = f"DROP TRIGGER {self.prefix}_t"
            return Step([("SQL", text)], lambda m: setattr(m, "is_watched", False))
        text = f"CREATE TRIGGER {self.prefix}_t AFTER INSERT ON {self.prefix} CALL {self.prefix}_count"
        return Step([("SQL", text)], lambda m: setattr(m, "is_watched", True))

    def observe(self, connection: Connection) -> Model:
        """What the server holds of this client's."""
        strings = {}
        for name in (b"%d" % number for number in range(20)):
            value = connection("GET", self.key("s" + name.decode()))
            if value != NIL_BULK:
                strings[name] = value
        flat = connection("HGETALL", self.key("h"))
        scored = connection("ZRANGE", self.key("z"), 0, -1, "WITHSCORES")
        rows = connection("SQL", f"SELECT id, n, t FROM {self.prefix} ORDER BY id")[1:]
        listed = [row[0] for row in connection("SQL", "SELECT table_name FROM information_schema.tables")[1:]]
        indexes = connection("SQL", f"SHOW INDEXES FROM {self.prefix}")
        triggers = connection("SQL", "SELECT trigger_name FROM information_schema.triggers")[1:]
        columns, *wide = connection("SQL", f"SELECT * FROM {self.prefix}")
        if (is_wide := columns[3:] == [b"w"]) and any(row[3] != 7 for row in wide):
            raise AssertionError(f"{self.prefix}: a row without the default of a column: {wide}")
        counted = connection("GET", self.key("c"))
        return Model(
            strings=strings,
            items=connection("LRANGE", self.key("l"), 0, -1),
            fields=dict(zip(flat[::2], flat[1::2], strict=True)),
            members=set(connection("SMEMBERS", self.key("m"))),
            scores={name: int(score) for name, score in zip(scored[::2], scored[1::2], strict=True)},
            rows={row[0]: (row[1], row[2]) for row in rows},
            tables={name for name in listed if name.startswith(f"{self.prefix}_".encode())},
            is_indexed=any(f"{self.prefix}_n".encode() in row for row in indexes[1:]),
            is_wide=is_wide,
            is_watched=[f"{self.prefix}_t".encode()] in triggers,
            counted=0 if counted == NIL_BULK else int(counted),
        )


@dataclass
class Client:
    """Runs a workload until the connection breaks, and remembers what it was told."""

    workload: Workload
    model: Model = field(default_factory=Model)
    history: list[Model] = field(default_factory=list)
    answered: int = 0
    failure: AssertionError | None = None

    def begin(self, model: Model) -> None:
        """Goes on from what was found."""
        self.model, self.history, self.answered = model, [copy.deepcopy(model)], 0

    def run(self, connection: Connection, depth: int) -> None:
        """Sends steps, up to `depth` before the first is answered, until the connection is lost."""
        try:
            while True:
                steps = []
                for _ in range(self.workload.random.randint(1, depth)):
                    step = self.workload.step(self.model)
                    step.apply(self.model)
                    self.history.append(copy.deepcopy(self.model))
                    steps.append(step)
                connection.send_raw(b"".join(encode(request) for step in steps for request in step.requests))
                for step in steps:
                    replies = [connection.read() for _ in step.requests]
                    for request, reply in zip(step.requests, replies, strict=True):
                        check(request, reply)
                    self.answered += 1
        except (OSError, ConnectionClosed):
            return
        except AssertionError as failure:
            self.failure = failure

    def judge(self, found: Model) -> None:
        """Whether what was found is what may be there, and nothing that was asked for failed."""
        if self.failure is not None:
            raise self.failure
        candidates = self.history[self.answered :]
        if found not in candidates:
            raise AssertionError(
                f"{self.workload.prefix}: after {self.answered} answered of {len(self.history) - 1} steps, found\n"
                f"{found}\nand expected one of the last {len(candidates)}, as\n{candidates[0]}"
            )


def check(request: Request, reply: Any) -> None:
    """No step is one that may fail."""
    replies = reply if isinstance(reply, list) else [reply]
    for one in replies:
        if isinstance(one, Error):
            raise AssertionError(f"{request[:3]}: {one}")
