"""Commands of other families called from Lua, to see that nothing changes on that way in.

What a script converts by itself has tests of its own; here every command goes
through ``redis.call`` and its reply, or its error, comes back out.
"""

from random import Random

from tests.commands.generators import function

WRAPPERS = (
    b"return redis.call(unpack(ARGV))",
    b"return redis.call(unpack(ARGV)) ",
    b"return redis.pcall(unpack(ARGV))",
    b"redis.setresp(3) return redis.call(unpack(ARGV))",
    b"redis.setresp(3) return redis.pcall(unpack(ARGV))",
)
SCANS = (b"SCAN", b"HSCAN", b"SSCAN", b"ZSCAN")


def wrap(random: Random, step: list[list[bytes]]) -> list[list[bytes]]:
    """The step's commands as EVALs; scans stay outside, as their cursors are followed to the end."""
    if step[0][0].upper() in SCANS or random.random() < 0.15:
        return step
    wrapper = random.choice(WRAPPERS)
    return [[b"EVAL", wrapper, b"0", *command] for command in step]


def unwrap(command: list[bytes]) -> list[bytes]:
    """The command that `wrap` hid, or the command itself."""
    if len(command) > 3 and command[0] == b"EVAL" and command[1] in WRAPPERS:
        return command[3:]
    return function.calls(command) or command
