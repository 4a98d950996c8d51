"""What several commands take: times, durations, where columns come from, Spark's settings."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.core import time_texts
from sojourn.errors import BadFile, NoSuchFile, OutOfRange

if TYPE_CHECKING:
    from sojourn.replay.columns import Columns

# Which table a column of ours belongs to, if that is not said.
_TABLES = dict.fromkeys(("key", "offset", "at_ms", "at_s", "at_us", "at_ns"), "signals")


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    help: str,
    description: str,
    examples: str,
    stops_cleanly: bool = False,
) -> argparse.ArgumentParser:
    """Add a command; return its parser. With `stops_cleanly`, SIGTERM ends it as Ctrl-C does."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, stops_cleanly=stops_cleanly)
    return parser


def read_file(path: Path, what: str) -> bytes:
    """Read a file that an option names: "token file", "payload file"."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise NoSuchFile(f"there is no {what} {path}") from None
    except OSError as error:
        raise BadFile(f"the {what} {path} cannot be read: {error}") from None


def moment_ms(text: str) -> int:
    """Milliseconds since 1970, from those or from a date and time, UTC unless it says otherwise."""
    try:
        return int(text)
    except ValueError:
        pass
    at_ms = time_texts.moment_ms(text)
    if at_ms is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time like 2026-01-06T12:00 nor milliseconds since 1970"
        )
    return at_ms


def duration_ms(text: str) -> int:
    """Milliseconds from `10s`, `500 ms`, `5min`, `2h`, `1d`; a bare number is milliseconds."""
    written = text.strip()
    if written.isdecimal():
        return int(written)
    span_ms = time_texts.duration_ms(written)
    if span_ms is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: write 500ms, 10s, 5min, 2h or 1d"
        )
    return span_ms


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting: write NAME=VALUE")
    return name.strip(), value.strip()


def requirement(text: str) -> tuple[str, int]:
    """KEY=OFFSET, or KEY for offset 1; a key may have = in it if the offset is there."""
    key, equals, offset = text.rpartition("=")
    if not equals:
        return text, 1
    try:
        return key, int(offset)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no requirement: write KEY=OFFSET with a whole number"
        ) from None


MAPPING = """\
your tables as they are:
  --map COLUMN_OF_OURS=YOURS says where a column comes from; YOURS may be text with columns in it.
  Columns of signals and cancels are signals.at_ms, cancels.id, …; those that only one table can
  have need no table. Times are timestamps, or numbers in the unit of the name: submitted_s=created
  are seconds. Without an offset, what happened has offset 1.
    --map id=order_id --map submitted_ms=created_at --timeout 30min --require 'paid/{order_id}'
    --map key='{type}/{order_id}' --map at_ms=happened_at --where signals.type=paid,packed
    --map cancels.id=order_id --map cancels.at_ms=happened_at --where cancels.type=cancelled
"""


def add_mapping(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("your tables as they are")
    group.add_argument(
        "--map",
        dest="mapped",
        metavar="[TABLE.]OURS=YOURS",
        type=setting,
        action="append",
        default=[],
        help="take a column of ours from one of yours; may be given several times",
    )
    group.add_argument(
        "--require",
        dest="requires",
        metavar="KEY[=OFFSET]",
        type=requirement,
        action="append",
        default=[],
        help="what each operation waits for, e.g. 'paid/{order_id}'; may be given several times",
    )
    group.add_argument("--timeout", type=duration_ms, metavar="DURATION", help="one for all: 30min")
    group.add_argument(
        "--where",
        metavar="TABLE.COLUMN[=VALUE,…]",
        action="append",
        default=[],
        help="take only rows with this value, or without =VALUE those where it is not null",
    )
    group.add_argument(
        "--keep", metavar="COLUMN,…", help="pass only these columns through; default all"
    )


def columns_of(args: argparse.Namespace) -> dict[str, Columns]:
    """Return where the columns of each table come from."""
    from sojourn.replay.columns import cancel_columns, operation_columns, signal_columns

    how: dict[str, dict[str, Any]] = {"operations": {}, "signals": {}, "cancels": {}}
    for target, source in args.mapped:
        table, dot, column = target.partition(".")
        if not dot or table not in how:
            table, column = _TABLES.get(target, "operations"), target
        constant = column in ("offset", "needed") and source.isdecimal()
        how[table][column] = int(source) if constant else source
    for text in args.where:
        table, dot, condition = text.partition(".")
        if not dot or table not in how:
            raise OutOfRange(
                f"--where {text}: write TABLE.COLUMN=VALUE with one of the tables {', '.join(how)}"
            )
        column, equals, values = condition.partition("=")
        where = how[table].setdefault("where", {})
        where[column] = values.split(",") if equals else None
    if args.keep is not None:
        how["operations"]["keep"] = [name for name in args.keep.split(",") if name]
    return {
        "operations": operation_columns(
            requires=args.requires, timeout=args.timeout, **how["operations"]
        ),
        "signals": signal_columns(**how["signals"]),
        "cancels": cancel_columns(**how["cancels"]),
    }


def add_spark(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Spark")
    group.add_argument(
        "--master", metavar="URL", help="local[2], spark://host:7077, …; default local[*]"
    )
    group.add_argument(
        "--conf",
        metavar="NAME=VALUE",
        type=setting,
        action="append",
        default=[],
        help="a setting of Spark's; may be given several times",
    )
    group.add_argument(
        "--driver-memory", metavar="SIZE", default="2g", help="default 2g, as Spark writes sizes"
    )


def add_ending(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is said")
    group.add_argument("--json", action="store_true", help="say what came out as JSON")
    group.add_argument("--quiet", action="store_true", help="no progress on stderr")
    group.add_argument(
        "--fail-on-rejected", action="store_true", help="exit with 1 if rows were rejected"
    )


def need(value: object, option: str, why: str) -> None:
    if value is None:
        raise OutOfRange(f"{why}: give {option}")
