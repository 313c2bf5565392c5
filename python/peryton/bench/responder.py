"""The server that does nothing, as a process: `python -m peryton.bench.responder PORT REPLY-IN-HEX`."""

import signal
import sys

from peryton import _core


def main() -> None:
    """Answers every request with the same bytes until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    responder = _core.Responder("127.0.0.1", int(sys.argv[1]), reply=bytes.fromhex(sys.argv[2]))
    try:
        signal.pause()
    finally:
        responder.stop()


if __name__ == "__main__":
    main()
