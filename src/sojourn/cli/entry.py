"""The command `sojourn`: which part is asked for, and how it ends.

Exit status:

    0     success
    1     with `--fail-on-rejected`: rows were rejected; or the service does not know the id
    2     an invalid option or value, a file that cannot be read, or every row rejected
    130   Ctrl-C
    143   SIGTERM
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import signal as signals
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

import sojourn
from sojourn.cli import (
    backup,
    cancel,
    get,
    kafka,
    outcomes,
    replay,
    report,
    sample,
    serve,
    signal,
    state,
    stream,
    submit,
    verify,
)
from sojourn.errors import SojournError

OK, REJECTED, BAD, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

_EXAMPLES = """\
examples:
  sojourn sample shop                                 # half a million operations, two days
  sojourn replay shop/operations shop/signals --cancels shop/cancels --out answers --report
  sojourn report answers -o report.html
  sojourn serve waits                                 # durable waits over HTTP, on port 8080
  sojourn kafka --brokers 3 --port 9092               # a cluster to test Kafka clients with
  sojourn submit order-7 --require order-7/paid --timeout 30min   # into a service, on disk
  sojourn outcomes --follow                           # how what waits in a service ends

exit status: 0 fine, 1 rows were rejected and --fail-on-rejected was given, or an id is not known,
2 bad usage or input, or every row of it was rejected, 130 interrupted, 143 terminated
"""


class Terminated(KeyboardInterrupt):
    """SIGTERM came; whatever is under way is left as after Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments ask for; return its exit status."""
    try:
        args = _parser().parse_args(argv)
    except SystemExit as end:  # --help, or usage that was explained on stderr
        return end.code if isinstance(end.code, int) else BAD
    try:
        with _stopped_cleanly() if args.stops_cleanly else contextlib.nullcontext():
            status: int = args.run(args)
        sys.stdout.flush()
        return status
    except Terminated:
        print("terminated", file=sys.stderr)
        return TERMINATED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (SojournError, OSError) as error:
        return _explain(args, error)
    except ImportError as error:
        if args.traceback or (error.name or "").startswith("sojourn."):
            raise
        return _explain(args, _what_to_install(error))
    except Exception as error:
        if args.traceback or not _is_sparks(error):
            raise
        return _explain(args, SojournError(_gist(error)))


@contextlib.contextmanager
def _stopped_cleanly() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, so that it clears up after itself."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signals.signal(signals.SIGTERM, stop)
    try:
        yield
    finally:
        signals.signal(signals.SIGTERM, before)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sojourn",
        description="Operations that wait for events: which completed, which ran out of time, "
        "when, by what, and what the timeout should have been.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--traceback", action="store_true", help="show where in the program an error arose"
    )
    build = "compiled" if sojourn.compiled else "interpreted"
    parser.add_argument(
        "--version",
        action="version",
        version=f"sojourn {sojourn.__version__}, {build}, Python {platform.python_version()}",
    )
    commands = parser.add_subparsers(metavar="command", required=True)
    for command in (sample, replay, stream, state, report, serve, kafka):
        command.add_parser(commands)
    for command in (submit, signal, cancel, get, outcomes, backup, verify):
        command.add_parser(commands)
    return parser


def _explain(args: argparse.Namespace, error: Exception) -> int:
    """One line about the error, or all of it if that was asked for."""
    if args.traceback:
        raise error
    message = str(error).strip() or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        message = f"{error.filename}: {error.strerror}"
    print(f"sojourn: {' '.join(message.split())}", file=sys.stderr)
    return BAD


def _what_to_install(error: ImportError) -> SojournError:
    missing = (error.name or "").partition(".")[0]
    extras = {
        "pyspark": "spark",
        "py4j": "spark",
        "pandas": "spark",
        "pyarrow": "cli",
        "numpy": "cli",
        "rich": "cli",
        "kio": "kafka",
        "crc32c": "kafka",
        "httpx": "client",
        "starlette": "service",
        "uvicorn": "service",
        "msgspec": "service",
        "prometheus_client": "service",
    }
    if missing not in extras:
        return SojournError(str(error))
    return SojournError(
        f"this needs {missing}, which is not installed; pip install 'sojourn[{extras[missing]}]'"
    )


def _is_sparks(error: Exception) -> bool:
    return any(kind.__module__.startswith(("pyspark.", "py4j.")) for kind in type(error).__mro__)


def _gist(error: Exception) -> str:
    """What Spark's error is about: ours inside of it if there is one, else its first line."""
    text = str(error)
    ours = re.findall(r"^(?:Caused by: )?(?:\w+\.)*sojourn\.[\w.]+: (.+)$", text, re.MULTILINE)
    message = ours[-1] if ours else next((line for line in text.splitlines() if line.strip()), "")
    return f"{message.strip() or type(error).__name__} (--traceback shows all of it)"
