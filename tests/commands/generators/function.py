"""FUNCTION, FCALL and FCALL_RO: libraries that collide, replace each other and move in payloads."""

from __future__ import annotations

from random import Random

TABLE = """
6 FUNCTION LOAD library
6 FUNCTION LOAD REPLACE library
1 FUNCTION LOAD bad_library
1 FUNCTION LOAD <NOPE|REPLACE|REPLACE REPLACE|REPLACE NOPE> library
3 FUNCTION DELETE library_name
1 FUNCTION FLUSH [ASYNC|SYNC|NOPE]
2 FUNCTION LIST
2 FUNCTION LIST {[LIBRARYNAME library_pattern] [WITHCODE]}
1 FUNCTION LIST <LIBRARYNAME|NOPE|WITHCODE WITHCODE|LIBRARYNAME library_pattern LIBRARYNAME library_pattern>
2 FUNCTION STATS
1 FUNCTION <KILL|DUMP|HELP>
3 FUNCTION RESTORE library_payload [APPEND|REPLACE|FLUSH|NOPE]
8 FCALL function_name 0 any_command
5 FCALL function_name 1 any_key value value
2 FCALL function_name <0|1|2|3|-1|NOPE|""> value value
3 FCALL_RO function_name 0 any_command
1 <FCALL|FCALL_RO> function_name 0
1 FCALL function_name
2 MULTI ; FUNCTION LOAD REPLACE library ; FCALL function_name 1 any_key value ; EXEC
1 MULTI ; FUNCTION DELETE library_name ; FCALL function_name 0 ; FUNCTION FLUSH ; EXEC
4 any_command
"""

LIBRARIES = ("liba", "LibB", "libc")
FUNCTIONS = ("f", "g", "h", "call", "Read", "put")

_FLAGS = ("'no-writes'", "'allow-oom'", "'allow-stale'", "'No-Cluster'", "'allow-cross-slot-keys'")
_BODIES = (
    "return {keys, args}",
    "return #keys + #args",
    "return redis.call('SET', keys[1] or 's1', args[1] or '')",
    "return redis.call('GET', keys[1] or 's1')",
    "local reply = redis.pcall('INCR', keys[1] or 's1') return reply",
    "count = (count or 0) + 1 return count",
    "return nope",
    "error('an error')",
    "error({err = 'MINE an error'})",
    "return redis.error_reply('MY own')",
    "return {ok = 'FINE'}",
    "return redis.register_function('late', print)",
    "register('late', function() end) return 1",
    "seen = seen + 1 return seen",
    "return helper(args[1])",
    "redis.setresp(3) return {double = 1.5}",
    "return {double = 1.5}",
    "redis.call('SET', 's1', 'kept') redis.call('NOSUCH')",
    "return redis.call('FCALL', 'f', 0)",
    "return redis.call('FUNCTION', 'FLUSH')",
    "keys[1] = 'x' args[1] = nil return {keys, args}",
)
_CALLS = (
    "return redis.call(unpack(args))",
    "return redis.pcall(unpack(args))",
    "redis.setresp(3) return redis.call(unpack(args))",
)
_BAD = (
    b"",
    b"return 1",
    b"#!lua name=x",
    b"#!lua\nreturn 1",
    b"#!lua name=bad-name\n",
    b"#!lua name=\n",
    b"#!lua name=x name=y\n",
    b"#!lua name=x flags=no-writes\n",
    b"#!nope name=x\n",
    b"#!LUA NAME=empty\n",
    b"#!lua 'name=x\n",
    b'#!lua "name=\\x78"\n',
    b"#!lua name=x\nreturn ((",
    b"#!lua name=x\nredis.call('PING')",
    b"#!lua name=x\nx = 1",
    b"#!lua name=x\nlocal t = string.rep('x', 3)",
    b"#!lua name=x\nerror('no')",
    b"#!lua name=x\nredis.nope()",
    b"#!lua name=x\nlocal t = {} t.x.y = 1",
)


def library(random: Random) -> bytes:
    """A library of one to three functions that do what some script might do."""
    name = random.choice(LIBRARIES)
    lines = [f"#!lua name={name}"]
    if random.random() < 0.5:
        lines += ["local seen = 0", "local function helper(x) return x end", "local register = redis.register_function"]
    for function in random.sample(FUNCTIONS, random.randint(1, 3)):
        lines.append(_registration(random, function))
    return "\n".join(lines).encode()


def _registration(random: Random, name: str) -> str:
    body = random.choice(_CALLS if random.random() < 0.5 else _BODIES)
    callback = f"function(keys, args) {body} end"
    if random.random() < 0.5:
        return f"redis.register_function('{name}', {callback})"
    fields = [f"function_name = '{name}'", f"callback = {callback}"]
    if random.random() < 0.5:
        fields.append(f"description = 'what {name} does'")
    flags = random.sample(_FLAGS, random.randint(0, 3))
    if flags:
        fields.append("flags = {" + ", ".join(flags) + "}")
    random.shuffle(fields)
    return "redis.register_function{" + ", ".join(fields) + "}"


def bad_library(random: Random) -> bytes:
    return random.choice(_BAD)


def payload(*texts: bytes, version: int = 10) -> bytes:
    """What FUNCTION DUMP gives for libraries of these texts."""
    body = b"".join(b"\xf5\x80" + len(text).to_bytes(4, "big") + text for text in texts) + version.to_bytes(2, "little")
    return body + crc64(body).to_bytes(8, "little")


def crc64(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def calls(command: list[bytes]) -> list[bytes] | None:
    """The command that a function may be told to call, if this is such a call."""
    is_call = len(command) > 3 and command[0] in (b"FCALL", b"FCALL_RO") and command[2] == b"0"
    return command[3:] if is_call else None
