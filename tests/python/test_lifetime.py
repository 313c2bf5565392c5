"""Forks, threads, signals and the interpreter's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import peryton


def run_python(code: str, *, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)]
    return subprocess.run(program, capture_output=True, text=True, timeout=timeout, check=False)


def expect(code: str, output: str, *, returncode: int = 0) -> None:
    done = run_python(code)
    assert (done.stdout, done.stderr, done.returncode) == (output, "", returncode)


def test_every_handle_raises_in_a_forked_child() -> None:
    expect(
        """
        import os, peryton, redis
        db = peryton.open()
        server = db.serve()
        remote = peryton.connect(server.address)
        client = db.redis()
        session = db._store.session()
        client.ping(), remote.command("PING"), db.command("PING")
        if os.fork() == 0:
            for use in (
                lambda: db.command("PING"), lambda: remote.command("PING"), lambda: db._store.session(),
                lambda: session.execute(["PING"]), lambda: session.wait(0), lambda: server.wait(0),
                lambda: client.ping(), lambda: db.serve(),
            ):
                try:
                    print(use())
                except peryton.ForkError as error:
                    print("ForkError", end=" ", flush=True)
            session.close(); server.stop(); db.close()
            os._exit(0)
        os.wait()
        print(db.command("PING"), remote.command("PING"), client.ping())
        """,
        "ForkError " * 8 + "PONG PONG True\n",
    )


def test_a_child_that_exits_normally_leaves_the_parent_alone() -> None:
    expect(
        """
        import os, sys, peryton
        db = peryton.open()
        db.serve()
        db.redis().set("k", 1)
        if os.fork() == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]), db.command("GET", "k"))
        """,
        "3 b'1'\n",
    )


def test_a_fork_while_another_thread_holds_the_baton() -> None:
    expect(
        """
        import os, threading, peryton
        db = peryton.open()
        going = True
        def busy():
            requests = [("SET", "k", "v" * 1000)] * 500
            while going:
                db.pipeline(requests)
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads: thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                try:
                    db.command("PING")
                except peryton.ForkError:
                    pass
                del db
                os._exit(0)
            os.waitpid(pid, 0)
        going = False
        for thread in threads: thread.join()
        print("done")
        """,
        "done\n",
    )


def test_a_child_may_open_its_own() -> None:
    expect(
        """
        import os, peryton
        db = peryton.open()
        address = db.serve().address
        db.command("SET", "k", "parent")
        if os.fork() == 0:
            with peryton.open() as own, peryton.connect(address) as remote:
                own.command("SET", "k", "child")
                print(own.command("GET", "k"), remote.command("GET", "k"), flush=True)
            os._exit(0)
        os.wait()
        """,
        "b'child' b'parent'\n",
    )


@pytest.mark.parametrize(
    "code",
    [
        "db = peryton.open(); db.serve(); db.command('SET', 'k', 1)",
        "db = peryton.open(); r = db.redis(); r.ping(); p = r.pubsub(); p.subscribe('x')",
        "db = peryton.open(); s = db._store.session(); s.send([['BLPOP', 'q', '0']])",
        "threading.Thread(target=db.command, args=('BLPOP', 'q', 0), daemon=True).start(); time.sleep(0.1)",
        "threading.Thread(target=db.redis().blpop, args=('q', 0), daemon=True).start(); time.sleep(0.1)",
        "p = db.redis().pubsub(); p.subscribe(x=print); p.run_in_thread(daemon=True); time.sleep(0.1)",
        "db.close(); db.close()",
        "del db",
        "remote = peryton.connect(db.serve().address); remote.command('PING')",
    ],
)
def test_the_interpreter_ends_cleanly(code: str) -> None:
    expect(f"import peryton, threading, time\ndb = peryton.open()\n{code}\nprint('end', flush=True)", "end\n")


def test_a_store_that_nobody_holds_goes() -> None:
    before = len(os.listdir("/proc/self/task"))
    for _ in range(10):
        peryton.open().command("PING")
    end = time.monotonic() + 5
    while len(os.listdir("/proc/self/task")) > before and time.monotonic() < end:
        time.sleep(0.02)
    assert len(os.listdir("/proc/self/task")) <= before


def test_ctrl_c_ends_a_wait() -> None:
    expect(
        """
        import os, peryton, signal, threading, time
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever began these tests may ignore it
        db = peryton.open()
        for wait in (lambda: db.command("BLPOP", "q", 0), lambda: db.serve().wait(), lambda: db.redis().blpop("q", 0)):
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            started = time.monotonic()
            try:
                wait()
            except KeyboardInterrupt:
                print("interrupted", time.monotonic() - started < 20)
        db.command("RPUSH", "q", "x")
        print(db.command("LLEN", "q"))
        """,
        "interrupted True\n" * 3 + "1\n",
    )


def test_other_threads_run_while_one_waits_or_works() -> None:
    expect(
        """
        import peryton, threading, time
        db = peryton.open()
        db.pipeline([("RPUSH", "l", *range(1000))] * 200)
        thread = threading.Thread(target=db.command, args=("BLPOP", "q", 0.3))
        thread.start()
        count = 0
        while thread.is_alive():
            count += 1
        print(count > 1000)
        """,
        "True\n",
    )


def start_server(*options: str) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "peryton", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not (line := process.stdout.readline()).startswith("Ready at "):
        assert line, process.communicate()
    return process, line.removeprefix("Ready at ").strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_stops_cleanly_on_a_signal(number: signal.Signals) -> None:
    process, address = start_server()
    with peryton.connect(address) as remote:
        assert remote.command("PING") == "PONG"
        process.send_signal(number)
        output, errors = process.communicate(timeout=20)
        assert (output, errors, process.returncode) == ("Stopping\n", "", 0)
        with pytest.raises(peryton.NetworkError):
            remote.command("PING")


def test_a_directory_belongs_to_one_store(tmp_path: Path) -> None:
    where = tmp_path / "deep" / "data"
    with peryton.open(where), pytest.raises(peryton.ReplyError, match="is open in this process; serve the store there"):
        peryton.open(where)
    with peryton.open(where) as again:
        assert again.command("PING") == "PONG"


def test_a_directory_of_another_process(tmp_path: Path) -> None:
    process, _ = start_server("--dir", str(tmp_path))
    with pytest.raises(peryton.ReplyError, match=f"is open in process {process.pid};"):
        peryton.open(tmp_path)
    process.kill()
    process.communicate()
    peryton.open(tmp_path).close()


def test_a_directory_that_cannot_be_made() -> None:
    with pytest.raises(peryton.ReplyError, match="cannot use the directory /dev/null/data"):
        peryton.open("/dev/null/data")


def test_an_endless_script_can_be_killed_from_another_thread() -> None:
    expect(
        """
        import peryton, threading, time
        db = peryton.open()
        client = db.redis()
        client.ping()
        for kill in (lambda: db.command("SCRIPT", "KILL"), client.script_kill):
            failed = []
            def loop():
                try:
                    db.command("EVAL", "while true do end", 0)
                except peryton.PerytonError as error:
                    failed.append(error)
            thread = threading.Thread(target=loop)
            thread.start()
            time.sleep(0.3)
            print(kill() in ("OK", True, b"OK"))
            thread.join(20)
            print(len(failed), thread.is_alive())
        """,
        "True\n1 False\n" * 2,
    )
