"""FUNCTION and FCALL: libraries that stay, their errors, their sandbox, their payloads; as Redis does it."""

from __future__ import annotations

import time

import pytest

from tests.commands.compare import listed
from tests.commands.generators.function import payload
from tests.commands.scenario import Scenarios, Stage, each
from tests.support.resp import Error, Nil, Simple
from tests.support.servers import Server

scenarios = Scenarios()


READING_LIBRARY = """#!lua name=reading
redis.register_function{
    function_name = 'r',
    callback = function(keys) return redis.call('GET', keys[1]) end,
    flags = {'no-writes'}
}
"""


@scenarios
def functions_live_in_libraries(stage: Stage) -> None:
    client = stage.client("client")
    library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return {keys, args} end)\n"
    client("FUNCTION", "LOAD", library)
    client("FUNCTION", "LOAD", library)
    client("FUNCTION", "LOAD", "REPLACE", library)
    client("FCALL", "f", 1, "k", "a", "b")
    client("FCALL_RO", "f", 0)
    client("FCALL", "none", 0)
    client("FCALL", "f", "x")
    client("FCALL", "f", 3, "k")
    client("FUNCTION", "LOAD", READING_LIBRARY)
    client("SET", "k", "v")
    client("FCALL_RO", "r", 1, "k")
    for wrong in (
        *(
            "return 1",
            "#!lua\nreturn 1",
            "#!lua name=bad name\n",
            "#!lua name=empty\n",
            "#!nope name=x\n",
            "#!lua name=x y=z\n",
        ),
        *(
            "#!lua name=x\nredis.call('PING')",
            "#!lua name=x\nredis.register_function('f', 1)",
            "#!lua name=x\nreturn ((",
        ),
        *("#!lua name=x\nredis.register_function('bad name', function() end)", "#!lua name=x\nx = 1"),
        "#!lua name=x\nredis.register_function('f', function() end)",
    ):
        client("FUNCTION", "LOAD", wrong)
    client("FUNCTION", "LIST", "LIBRARYNAME", "reading")
    client("FUNCTION", "LIST", "LIBRARYNAME", "reading", "WITHCODE")
    client("FUNCTION", "LIST", "NOPE")
    client("FUNCTION", "DELETE", "lib")
    client("FUNCTION", "DELETE", "lib")
    client("FCALL", "f", 0)
    client("FUNCTION", "KILL")
    client("FUNCTION", "NOPE")
    client("FUNCTION", "FLUSH", "ASYNC")
    client("FUNCTION", "FLUSH", "NOPE")
    client("FUNCTION", "LIST")


# What follows `#!lua name=lib` in a library.
CODES = r"""
redis.register_function('f', function() return 1 end)
redis.register_function('f', function() return 1 end) redis.register_function('f', function() return 2 end)
redis.register_function('f', function() return 1 end, {})
redis.register_function()
redis.register_function('f')
redis.register_function(1, function() return 1 end)
redis.register_function({}, function() return 1 end)
redis.register_function('f', 'g')
redis.register_function('', function() return 1 end)
redis.register_function('a-b', function() return 1 end)
redis.register_function('a\\0b', function() return 1 end)
redis.register_function{}
redis.register_function{function_name = 'f'}
redis.register_function{callback = function() return 1 end}
redis.register_function{function_name = 1, callback = function() return 1 end}
redis.register_function{function_name = {}, callback = function() return 1 end}
redis.register_function{function_name = 'f', callback = 'g'}
redis.register_function{function_name = 'f', callback = function() return 1 end, description = {}}
redis.register_function{function_name = 'f', callback = function() return 1 end, description = 7}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = 'no-writes'}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = {'nope'}}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = {1}}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = {{}}}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = {'NO-WRITES', 'no-writes'}}
redis.register_function{function_name = 'f', callback = function() return 1 end, flags = {a = 'nope'}}
redis.register_function{function_name = 'f', callback = function() return 1 end, nope = 1}
redis.register_function{[true] = 'f'}
redis.register_function{[1] = 'f'}
redis.register_function{FUNCTION_NAME = 'f', Callback = function() return 1 end}
redis.call('PING')
redis.pcall('PING')
redis.setresp(3)
redis.sha1hex('x')
redis.log(redis.LOG_NOTICE, 'x')
redis.log('x')
local v = redis.REDIS_VERSION_NUM
redis.x = 1
redis = nil
x = 1
return y
local s = string
local m = math.random()
local t = setmetatable({}, {})
local g = _G
local p = pcall
local n = next(redis)
for k, v in pairs(redis) do end
local s = ('x'):rep(3) redis.register_function('f', function() return s end)
error('no')
error({err = 'MINE no'})
error({err = 'no'})
error({err = 5})
error('with\\nlines')
local a = nil; local b = a.b
local a = 'x' + 1
return (
goto = 1
local x = 'unfinished
if true then
redis.register_function('f', function() return 1 end) error('after')
function g() end
local function g() end
return redis.register_function('f', function() return 1 end)
"""


@scenarios
def what_libraries_may_do_while_they_are_loaded(stage: Stage) -> None:
    client = stage.client("client")
    for code in CODES.strip().splitlines():
        code = code.replace("\\\\", "\\")
        for between in ("\n", "\n\n  "):
            client("FUNCTION", "LOAD", "REPLACE", f"#!lua name=lib{between}{code}")
        client("FUNCTION", "LIST", "WITHCODE")
        client("FCALL", "f", 0)
        client("FUNCTION", "FLUSH")


@scenarios
def first_lines(stage: Stage) -> None:
    client = stage.client("client")
    code = "\nredis.register_function('f', function() return 1 end)"
    for line in each(
        """
        #!lua name=lib | #!LUA name=lib | #!lua NAME=lib | #!lua 'name=lib' | #!lua "name=lib" | #!lua name="lib"
        #!lua name='lib | #!lua name=l"i"b | #!lua name="l"ib | #!lua "name=\\x6cib" | #!lua "name=l\\n" | #!lua name
        #!lua nam=lib | #!lua name= | #!lua name=a-b | #!lua name=a.b | #!lua name=lib name=lib | #!lua lib
        #!lua name=lib flags=no-writes | #! name=lib | #!name=lib | #!js name=lib | #! lua name=lib | lua name=lib
        #lua name=lib | ! | #!lua name=_1 | #!lua name=1 | #!luax name=lib | #!'lua' name=lib | #!lua name=ünï
        """
    ):
        client("FUNCTION", "LOAD", "REPLACE", line + code)
        client("FUNCTION", "LOAD", line)
    client("FUNCTION", "LOAD", "#!lua   name=spaces  " + code)
    client("FUNCTION", "LOAD", "#!lua name=zero\0" + code)
    client("FUNCTION", "LOAD", "\n#!lua name=lib" + code)
    client("FUNCTION", "LIST")


@scenarios
def arguments_of_the_commands(stage: Stage) -> None:
    client = stage.client("client")
    library = "#!lua name=lib\nredis.register_function('f', function(keys, args) return {#keys, #args} end)"
    for words in each(
        """
        LOAD | LOAD REPLACE | LOAD NOPE x | LOAD REPLACE REPLACE | DELETE | DELETE a b | DELETE none | LIST LIBRARYNAME
        LIST NOPE | LIST WITHCODE NOPE | LIST LIBRARYNAME a LIBRARYNAME b | FLUSH NOPE | FLUSH SYNC ASYNC | STATS x
        DUMP x | KILL x | KILL | HELP x | RESTORE | RESTORE x | RESTORE x NOPE | RESTORE x APPEND y | NOPE | STATS
        """
    ):
        client("FUNCTION", *words.split())
    client("FUNCTION")
    client("FUNCTION", "HELP")
    client("FUNCTION", "LOAD", library)
    client("FUNCTION", "LOAD", library)
    client("FUNCTION", "LOAD", "replace", library)
    for words in each(
        """
        f | f 0 | f 0 a | f 1 | f 1 k | f 1 k a | f 2 k | f -1 | f x | f 1.5 | none 0 | none x | F 0
        f 99999999999999999999
        """
    ):
        client("FCALL", *words.split())
        client("FCALL_RO", *words.split())


@scenarios
def functions_share_what_their_library_keeps(stage: Stage) -> None:
    client = stage.client("client")
    client(
        *("FUNCTION", "LOAD"),
        """#!lua name=shared
        local count = 0
        local seen = {}
        local function note(x) seen[#seen + 1] = x return #seen end
        redis.register_function('count', function() count = count + 1 return count end)
        redis.register_function('note', function(_, args) return note(args[1]) end)
        redis.register_function('seen', function() return seen end)
        """,
    )
    for name in ("count", "count", "COUNT", "seen"):
        client("FCALL", name, 0)
    client("FCALL", "note", 0, "a")
    client("FCALL", "note", 0, "b")
    client("FCALL", "seen", 0)
    client("FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('leak', function() return count end)")
    client("FCALL", "leak", 0)
    client("EVAL", "return count", 0)


@scenarios
def the_globals_of_functions_are_not_theirs(stage: Stage) -> None:
    client = stage.client("client")
    for body in each(
        """
        x = 1 | return x | _G.x = 1 | return _G.x | redis.x = 1 | return redis.x | string.x = 1 | redis.call = nil
        return type(redis.call) | return KEYS | return ARGV | return redis.register_function | table.insert(redis, 1)
        setmetatable(_G, {}) | rawset(_G, 'x', 1) | return getmetatable(_G) == nil | getmetatable('').__index = nil
        return redis.sha1hex('x') | return cjson.encode({1, 2}) | return bit.band(7, 3) | return type(load)
        return print | return type(next)
        return {redis.REDIS_VERSION_NUM} | return math.floor(2.5) | return loadstring('return 1')()
        return redis.acl_check_cmd('GET', 'k') | return redis.status_reply('X') | return redis.error_reply('X')
        for k in pairs(_G) do end return 1 | return next({}) | redis.set_repl(redis.REPL_ALL) return 1
        """
    ):
        code = f"#!lua name=lib\nredis.register_function('f', function(keys, args)\n{body}\nend)"
        client("FUNCTION", "LOAD", "REPLACE", code)
        client("FCALL", "f", 0)


@scenarios
def errors_name_the_function_and_the_line(stage: Stage) -> None:
    client = stage.client("client")
    client("SET", "s", "text")
    for body in each(
        """
        return redis.call('INCR', 's') | redis.call('INCR', 's') | return redis.pcall('INCR', 's') | error('x')
        error() | error({err = 'MINE x'}) | error(5) | return nope | return redis.call('NOSUCH') | return redis.call()
        return redis.call('GET') | return redis.call({}) | local t = nil return t.x | return {err = 'X y'}
        error('a\\nb')
        return redis.call('EVAL', 'return 1', 0) | return redis.call('FCALL', 'f', 0)
        return redis.call('FUNCTION', 'LIST')
        if true then return redis.call('INCR', 's') else return 1 end | return (redis.call('INCR', 's'))
        local function g() return redis.call('INCR', 's') end local a, b = g() return a
        """
    ):
        code = f"#!lua name=lib\n\nredis.register_function('Fun', function(keys, args)\n{body}\nend)"
        client("FUNCTION", "LOAD", "REPLACE", code)
        client("FCALL", "fun", 0)
        client("FCALL_RO", "fun", 0)


@scenarios
def flags_decide_what_a_function_may_do(stage: Stage) -> None:
    client = stage.client("client")
    client("SET", "k", "v")
    for flags in each("{} | {'no-writes'} | {'allow-oom'} | {'no-writes', 'allow-stale'} | {'no-cluster'}"):
        for body in ("redis.call('GET', 'k')", "redis.call('SET', 'k', 'w')", "redis.pcall('SET', 'k', 'x')"):
            arguments = f"function_name = 'f', callback = function() return {body} end, flags = {flags}"
            client("FUNCTION", "LOAD", "REPLACE", f"#!lua name=lib\nredis.register_function{{{arguments}}}")
            client("FUNCTION", "LIST")
            client("FCALL", "f", 0)
            client("FCALL_RO", "f", 0)
    client("GET", "k")


@scenarios
def libraries_do_not_take_each_others_functions(stage: Stage) -> None:
    client = stage.client("client")
    library = "#!lua name={}\nredis.register_function('{}', function() return '{}' end)".format
    client("FUNCTION", "LOAD", library("a", "f", "a"))
    client("FUNCTION", "LOAD", library("b", "F", "b"))
    client("FUNCTION", "LOAD", library("b", "g", "b"))
    client("FUNCTION", "LOAD", "REPLACE", library("b", "f", "b"))
    client("FCALL", "g", 0)
    client("FUNCTION", "LOAD", "REPLACE", library("a", "h", "a"))
    client("FCALL", "f", 0)
    client("FUNCTION", "LOAD", "REPLACE", library("b", "f", "b"))
    client("FCALL", "f", 0)
    client("FUNCTION", "LOAD", "REPLACE", "#!lua name=b\nnope")
    client("FCALL", "f", 0)
    client("FUNCTION", "DELETE", "B")
    client("FUNCTION", "STATS")
    client("FUNCTION", "RESTORE", payload(library("a", "f", "new").encode()))
    client("FUNCTION", "RESTORE", payload(library("c", "f", "new").encode()))
    client("FUNCTION", "RESTORE", payload(library("a", "f", "new").encode()), "REPLACE")
    client("FUNCTION", "RESTORE", payload(library("c", "i", "c").encode(), library("c", "j", "c").encode()))
    client("FUNCTION", "RESTORE", payload(library("c", "i", "c").encode(), library("d", "i", "c").encode()))
    client("FUNCTION", "RESTORE", payload(library("c", "i", "c").encode(), library("d", "j", "c").encode()))
    # What was in one library is in another after this.
    client("FUNCTION", "RESTORE", payload(library("d", "i", "d").encode(), library("c", "j", "c").encode()), "REPLACE")
    client("FUNCTION", "LIST")
    client("FCALL", "i", 0)
    client("FUNCTION", "RESTORE", payload(library("e", "f", "e").encode()), "FLUSH")
    client("FUNCTION", "LIST", "WITHCODE")
    client("FUNCTION", "RESTORE", payload(b"#!lua name=x\nnope"), "FLUSH")
    client("FUNCTION", "RESTORE", payload(), "FLUSH")
    client("FUNCTION", "LIST")


@scenarios
def payloads_that_are_none(stage: Stage) -> None:
    client = stage.client("client")
    good = payload(b"#!lua name=x\nredis.register_function('f', function() return 1 end)")
    for wrong in (b"", b"x", good[:-1], good[1:], good + b"x", b"\0" * 10, good.replace(b"name=x", b"name=y")):
        client("FUNCTION", "RESTORE", wrong)
    client("FUNCTION", "RESTORE", good)
    client("FCALL", "f", 0)


@scenarios
def functions_in_transactions(stage: Stage) -> None:
    client, other = stage.clients("client", "other")
    library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('INCR', keys[1]) end)"
    client("MULTI")
    client("FUNCTION", "LOAD", library)
    client("FCALL", "f", 1, "n")
    client("FUNCTION", "DELETE", "lib")
    client("FCALL", "f", 1, "n")
    client("EXEC")
    client("FUNCTION", "LIST")
    client("WATCH", "n")
    other("FUNCTION", "LOAD", library)
    client("MULTI")
    client("FCALL", "f", 1, "n")
    client("EXEC")


test_function = scenarios.test()

DUMPED = (
    "redis.register_function('one', function() return 1 end)",
    "-- " + "a long comment, over and over; " * 40 + "\nredis.register_function('two', function() return 'two' end)",
    "redis.register_function{function_name = 'three', callback = function(k) return k end, flags = {'no-writes'}}",
)


@pytest.mark.parametrize("way", ["to us", "from us"])
def test_libraries_move_between_the_servers(way: str, oracle: Server, peer: Server) -> None:
    source, target = (server.connect() for server in ((oracle, peer) if way == "to us" else (peer, oracle)))
    for connection in (source, target):
        connection("FUNCTION", "FLUSH")
    for at, code in enumerate(DUMPED):
        source("FUNCTION", "LOAD", f"#!lua name=lib{at}\n{code}")
    assert target("FUNCTION", "RESTORE", source("FUNCTION", "DUMP")) == Simple(b"OK")
    assert listed([], source("FUNCTION", "LIST", "WITHCODE"), target("FUNCTION", "LIST", "WITHCODE"))
    assert target("FCALL", "two", 0) == b"two"


@pytest.mark.parametrize(
    "code",
    [
        "while true do end",
        "local s = 'x' while true do s = ('x'):rep(1e7) end",
        "local n = ('a'):rep(40):find(('a-'):rep(40)..'b')",
        "local function f() return f() end f()",
    ],
)
def test_a_library_that_does_not_end_is_not_loaded(code: str, peer: Server) -> None:
    library = f"#!lua name=lib\n{code}"
    stopped = Error(b"ERR Error registering functions: ERR FUNCTION LOAD timeout")
    with peer.connect() as connection:
        connection("FUNCTION", "FLUSH")
        assert connection("FUNCTION", "LOAD", library) == stopped
        assert connection("FUNCTION", "RESTORE", payload(library.encode())) == stopped
        assert connection("FUNCTION", "LIST") == []


@pytest.mark.parametrize("side", ["oracle", "peer"])
def test_a_running_function_is_told_of_and_killed(side: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(side)
    runner, other = server.connect(), server.connect()
    other("CONFIG", "SET", "busy-reply-threshold", "50")
    other("FUNCTION", "FLUSH")
    code = "#!lua name=lib\nredis.register_function('Loop', function() while true do end end)"
    assert other("FUNCTION", "LOAD", code) == b"lib"
    runner.send("FCALL", "loop", 0, "an argument")
    while True:
        running = other("FUNCTION", "STATS")[1]
        if isinstance(running, list):
            break
        time.sleep(0.01)
    assert running[:4] == [b"name", b"Loop", b"command", [b"FCALL", b"loop", b"0", b"an argument"]]
    assert running[4] == b"duration_ms"
    assert running[5] >= 50
    busy = Error(b"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.")
    assert other("GET", "k") == busy
    assert other("SCRIPT", "KILL") == busy
    assert other("FUNCTION", "KILL") == Simple(b"OK")
    assert runner.read().startswith(b"ERR Script killed by user with SCRIPT KILL... script: Loop, on @user_function:2.")
    assert other("FUNCTION", "KILL") == Error(b"NOTBUSY No scripts in execution right now.")
    assert isinstance(other("FUNCTION", "STATS")[1], Nil)
    runner.send("EVAL", "while true do end", 0)
    while not (reply := other("FUNCTION", "KILL")).startswith(b"BUSY"):
        time.sleep(0.01)
    assert reply == Error(b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")
    assert other("FUNCTION", "STATS") == reply
    assert other("SCRIPT", "KILL") == Simple(b"OK")
    runner.read()
    other("CONFIG", "SET", "busy-reply-threshold", "5000")
