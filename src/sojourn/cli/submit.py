"""`sojourn submit`: let an operation wait, or many."""

from __future__ import annotations

import argparse
import binascii
from base64 import b64decode
from pathlib import Path
from typing import Any

from sojourn.cli.answers import say_answers
from sojourn.cli.connection import add_service, connected
from sojourn.cli.lines import add_from, check_one_or_many, fields, send_lines
from sojourn.cli.options import add_command, duration_ms, need, read_file, requirement
from sojourn.errors import OutOfRange, WrongType

_EXAMPLES = """\
A requirement holds when its key has come to its offset; without one the offset is 1. The same
id with the same content again changes nothing and is answered "duplicate".

examples:
  sojourn submit order-7 --require order-7/paid --require stock/blue-mug=40 --timeout 30min
  sojourn submit webhook-15 --require eu --require us --require ap --needed 2 --timeout 10s
  sojourn submit --from orders.jsonl --fail-on-rejected
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "submit",
        _run,
        help="let an operation wait in a service, or many",
        description="Let an operation wait until its requirements hold or its time runs out.",
        examples=_EXAMPLES,
    )
    parser.add_argument("id", nargs="?", metavar="ID")
    parser.add_argument(
        "--require",
        dest="requires",
        type=requirement,
        action="append",
        default=[],
        metavar="KEY[=OFFSET]",
        help="what it waits for; may be given several times",
    )
    parser.add_argument(
        "--timeout", type=duration_ms, metavar="DURATION", help="10s, 30min, 2h, 3d, …"
    )
    parser.add_argument(
        "--needed", type=int, metavar="N", help="how many of them must hold; default all"
    )
    parser.add_argument("--class", dest="class_", default="", metavar="NAME")
    payload = parser.add_mutually_exclusive_group()
    payload.add_argument("--payload", metavar="TEXT", help="comes back with the outcome")
    payload.add_argument("--payload-file", type=Path, metavar="FILE", help="the same, as bytes")
    parser.add_argument("--traceparent", metavar="TRACE", help="W3C trace context")
    add_from(parser, '{"id", "requires": [{"key", "offset"}], "timeout_ms", …}')
    add_service(parser)


def _run(args: argparse.Namespace) -> int:
    check_one_or_many(args, args.id is not None, "an ID")
    if args.source is not None:
        if args.requires or args.timeout is not None:
            raise OutOfRange("with --from the rows say what is required, and the timeout")
        with connected(args) as waits:
            return send_lines(args, row_of, waits.submit_many)
    if not args.requires:
        raise OutOfRange("an operation waits for something: give --require KEY=OFFSET")
    need(args.timeout, "--timeout DURATION", "an operation does not wait for ever")
    with connected(args) as waits:
        answer = waits.submit(
            args.id,
            args.requires,
            args.timeout,
            args.needed,
            args.class_,
            args.payload
            if args.payload_file is None
            else read_file(args.payload_file, "payload file"),
            args.traceparent,
        )
    say_answers(args, [args.id], [answer])
    return 0


def row_of(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The id, and the arguments of `submit`, from an operation as the service takes it."""
    optional = ("needed", "class", "payload", "payload_base64", "traceparent")
    fields(value, ("id", "requires", "timeout_ms"), optional)
    row = {name: value[name] for name in value if name not in ("class", "payload_base64")}
    if value.get("class") is not None:
        row["class_"] = value["class"]
    if value.get("payload_base64") is not None:
        if value.get("payload") is not None:
            raise WrongType("a row has either payload or payload_base64, not both")
        try:
            row["payload"] = b64decode(value["payload_base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise WrongType(f"payload_base64 cannot be read: {error}") from None
    if isinstance(row["requires"], list):
        row["requires"] = [
            (each.get("key"), each.get("offset")) if isinstance(each, dict) else each
            for each in row["requires"]
        ]
    return str(value["id"]), row
