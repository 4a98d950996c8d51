"""`sojourn outcomes`: how operations ended, in order, as they end."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from sojourn.cli.answers import say_operations
from sojourn.cli.connection import add_service, connected
from sojourn.cli.options import add_command, duration_ms
from sojourn.errors import OutOfRange, Unreachable

if TYPE_CHECKING:
    from sojourn.client import Client

_AT_ONCE = 1_000
_WAIT_MS = 20_000

_EXAMPLES = """\
Outcomes are numbered. To go on where you were, remember the number, or give the reading a name
with --subscription: the service then keeps the position, which moves when lines were written.

examples:
  sojourn outcomes                                  # those that are there
  sojourn outcomes --after 1200 --follow            # from 1201 on, until Ctrl-C
  sojourn outcomes --follow --subscription mail | send-mail
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "outcomes",
        _run,
        help="show how operations of a service ended, as they end",
        description="Show how operations ended, in order.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--after", type=int, metavar="N", help="those with numbers above N")
    parser.add_argument("--limit", type=int, metavar="N", help="no more than N")
    parser.add_argument(
        "--wait", type=duration_ms, default=0, metavar="DURATION", help="for the first one"
    )
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--subscription", metavar="NAME", help="from the position of that name")
    add_service(parser)


def _run(args: argparse.Namespace) -> int:
    if args.after is not None and args.subscription is not None:
        raise OutOfRange("give either --after or --subscription, which has its own position")
    if args.limit is not None and args.limit < 1:
        raise OutOfRange(f"--limit must be 1 or more, got {args.limit}")
    with connected(args) as waits:
        if args.subscription is not None:
            _read_subscription(args, waits)
        else:
            _read_from(args, waits, args.after or 0)
    return 0


def _read_from(args: argparse.Namespace, waits: Client, after: int) -> None:
    remaining = Remaining(args.limit)
    if args.follow:
        for outcome in waits.follow(after):
            say_operations(args, [outcome])
            if remaining.after(1) == 0:
                return
    wait_ms = args.wait
    while outcomes := waits.outcomes(after, remaining.at_once, wait_ms):
        say_operations(args, outcomes)
        after, wait_ms = outcomes[-1].number or after, 0
        if remaining.after(len(outcomes)) == 0:
            return


def _read_subscription(args: argparse.Namespace, waits: Client) -> None:
    """Say them, then commit: what was not written out comes again."""
    remaining = Remaining(args.limit)
    subscription = waits.subscription(args.subscription)
    wait_ms = args.wait
    while True:
        try:
            outcomes = subscription.read(remaining.at_once, _WAIT_MS if args.follow else wait_ms)
            if outcomes:
                say_operations(args, outcomes)
                subscription.commit()
        except Unreachable as error:
            if not args.follow:
                raise
            print(f"sojourn: {error}; still trying", file=sys.stderr)
            continue
        if remaining.after(len(outcomes)) == 0 or not (outcomes or args.follow):
            return
        wait_ms = 0


class Remaining:
    """How many may still be shown."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit

    @property
    def at_once(self) -> int:
        """How many to ask for."""
        return _AT_ONCE if self._left is None else min(self._left, _AT_ONCE)

    def after(self, shown: int) -> int | None:
        """How many are left after so many more; None without a limit."""
        if self._left is not None:
            self._left -= shown
        return self._left
