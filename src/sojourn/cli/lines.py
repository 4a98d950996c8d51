"""Lines of JSON: many commands from a file or from stdin, a line each.

    a program  ---> line line line ---> [ . . . ] ---> one request

What has come is sent; nothing waits for more lines. Whoever comes while a request is under way
goes with the next, and each line is answered by a line, in order.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from sojourn.cli.answers import say_answers
from sojourn.errors import BadFile, NoSuchFile, OutOfRange, SojournError, WrongType

if TYPE_CHECKING:
    from sojourn.durable import Answer

_AT_ONCE = 1_000
_AHEAD = 10_000  # lines read and not sent


class Line(NamedTuple):
    """A line, and the row that it means or what is wrong with it."""

    name: str
    row: Any = None
    error: SojournError | None = None


def add_from(parser: argparse.ArgumentParser, shape: str) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help=f"many instead of one: lines of JSON, {shape}; - is stdin",
    )
    parser.add_argument(
        "--fail-on-rejected",
        action="store_true",
        help="exit with 1 if rows of --from were refused",
    )


def check_one_or_many(args: argparse.Namespace, given: bool, what: str) -> None:
    """Refuse both, and neither."""
    if given == (args.source is not None):
        raise OutOfRange(f"give either {what} or --from FILE")


def send_lines(
    args: argparse.Namespace,
    parse: Callable[[dict[str, Any]], tuple[str, Any]],
    send: Callable[[list[Any]], list[Answer]],
) -> int:
    """Send the row that each line means, and say what became of it; the exit status."""
    from sojourn.durable import Answer
    from sojourn.durable.answers import REFUSED

    refused = 0
    for lines in _batches(args.source, parse):
        sent_answers = iter(send([line.row for line in lines if line.error is None]))
        answers = [
            next(sent_answers) if line.error is None else Answer(REFUSED, None, None, line.error)
            for line in lines
        ]
        refused += say_answers(args, [line.name for line in lines], answers)
    return 1 if refused and args.fail_on_rejected else 0


def _batches(
    source: str, parse: Callable[[dict[str, Any]], tuple[str, Any]]
) -> Iterator[list[Line]]:
    texts: queue.Queue[tuple[int, str] | Exception | None] = queue.Queue(_AHEAD)
    file = sys.stdin if source == "-" else _open(source)
    threading.Thread(target=_read, args=(file, texts), name="sojourn-lines", daemon=True).start()
    lines: list[Line] = []
    while True:
        if lines and (texts.empty() or len(lines) == _AT_ONCE):
            yield lines
            lines = []
        item = texts.get()
        if item is None or isinstance(item, Exception):
            break
        number, text = item
        if text.strip():
            lines.append(_line(f"line {number}", text, parse))
    if lines:
        yield lines
    if item is not None:
        raise BadFile(f"{source} cannot be read: {item}")


def _open(source: str) -> IO[str]:
    try:
        return open(source, encoding="utf-8")
    except FileNotFoundError:
        raise NoSuchFile(f"there is no file {source}") from None


def _read(file: IO[str], texts: queue.Queue[tuple[int, str] | Exception | None]) -> None:
    try:
        with file:
            for item in enumerate(file, 1):
                texts.put(item)
        texts.put(None)
    except (OSError, ValueError) as error:  # the latter: not UTF-8
        texts.put(error)


def _line(name: str, text: str, parse: Callable[[dict[str, Any]], tuple[str, Any]]) -> Line:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Line(name, error=WrongType(f"{name} is not JSON: {error}"))
    if not isinstance(value, dict):
        return Line(name, error=WrongType(f"{name} is not a JSON object"))
    try:
        return Line(*parse(value))
    except SojournError as error:
        return Line(name, error=error)


def fields(value: dict[str, Any], needed: tuple[str, ...], allowed: tuple[str, ...] = ()) -> None:
    """Refuse a row that lacks a field, or has one that is not known."""
    if missing := [name for name in needed if name not in value]:
        raise WrongType(f"a row has {', '.join(needed)}; {', '.join(missing)} missing: {value}")
    if unknown := [name for name in value if name not in needed + allowed]:
        known_fields = ", ".join(needed + allowed)
        raise WrongType(f"a row has {known_fields}; {', '.join(unknown)} is not known: {value}")
