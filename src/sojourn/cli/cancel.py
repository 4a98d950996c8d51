"""`sojourn cancel`: end an operation, or many."""

from __future__ import annotations

import argparse
from typing import Any

from sojourn.cli.answers import say_answers
from sojourn.cli.connection import add_service, connected
from sojourn.cli.lines import add_from, check_one_or_many, fields, send_lines
from sojourn.cli.options import add_command

_EXAMPLES = """\
An operation that has ended stays as it ended ("ended"). Exit status 1: the id is not known.

examples:
  sojourn cancel order-7
  sojourn cancel --from ids.jsonl
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "cancel",
        _run,
        help="cancel an operation that waits in a service",
        description="End an operation as cancelled, unless it has ended.",
        examples=_EXAMPLES,
    )
    parser.add_argument("id", nargs="?", metavar="ID")
    add_from(parser, '{"id"}')
    add_service(parser)


def _run(args: argparse.Namespace) -> int:
    check_one_or_many(args, args.id is not None, "an ID")
    with connected(args) as waits:
        if args.source is not None:
            return send_lines(args, row_of, waits.cancel_many)
        answer = waits.cancel(args.id)
    say_answers(args, [args.id], [answer])
    return 1 if answer.verdict == "unknown" else 0


def row_of(value: dict[str, Any]) -> tuple[str, Any]:
    """The id, and the row for `cancel_many`."""
    fields(value, ("id",))
    return str(value["id"]), value["id"]
