"""`sojourn get`: how an operation is, or how it ended."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from sojourn.cli.answers import say_operations
from sojourn.cli.connection import add_service, connected
from sojourn.cli.options import add_command, duration_ms

_EXAMPLES = """\
Exit status 1: the id is not known, or no longer.

examples:
  sojourn get order-7
  sojourn get order-7 --wait 10min       # until it has ended, ten minutes at most
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "get",
        _run,
        help="show an operation of a service, waiting or ended",
        description="Show an operation, waiting or ended.",
        examples=_EXAMPLES,
    )
    parser.add_argument("id", metavar="ID")
    parser.add_argument(
        "--wait", type=duration_ms, default=0, metavar="DURATION", help="for its end"
    )
    add_service(parser)


def _run(args: argparse.Namespace) -> int:
    with connected(args) as waits:
        operation = waits.get(args.id, args.wait)
    if operation is None:
        print(f"sojourn: {args.id} is not known, or no longer", file=sys.stderr)
        return 1
    say_operations(args, [operation])
    return 0
