"""`sojourn signal`: a key has come so far, or many."""

from __future__ import annotations

import argparse
from typing import Any

from sojourn.cli.answers import say_answers
from sojourn.cli.connection import add_service, connected
from sojourn.cli.lines import add_from, check_one_or_many, fields, send_lines
from sojourn.cli.options import add_command

_EXAMPLES = """\
Progress only moves up: a signal that says less than is known, or the same again, is "unchanged".

examples:
  sojourn signal order-7/paid            # it has happened: offset 1
  sojourn signal stock/blue-mug 41       # 41 delivered so far
  consume payments | sojourn signal --from -
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "signal",
        _run,
        help="tell a service how far a key has come",
        description="Move a key's progress up, which completes what waits for that.",
        examples=_EXAMPLES,
    )
    parser.add_argument("key", nargs="?", metavar="KEY")
    parser.add_argument("offset", nargs="?", type=int, default=1, metavar="OFFSET")
    add_from(parser, '{"key", "offset"}')
    add_service(parser)


def _run(args: argparse.Namespace) -> int:
    check_one_or_many(args, args.key is not None, "a KEY")
    with connected(args) as waits:
        if args.source is not None:
            return send_lines(args, row_of, waits.signal_many)
        answer = waits.signal(args.key, args.offset)
    say_answers(args, [args.key], [answer])
    return 0


def row_of(value: dict[str, Any]) -> tuple[str, tuple[Any, Any]]:
    """The key, and the row for `signal_many`."""
    fields(value, ("key", "offset"))
    return str(value["key"]), (value["key"], value["offset"])
