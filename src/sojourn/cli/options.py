"""What several commands take: times, durations, Spark's settings."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

from sojourn.errors import OutOfRange

_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment_ms(text: str) -> int:
    """Milliseconds since 1970, from those or from a date and time, UTC unless it says otherwise."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time like 2026-01-06T12:00 nor milliseconds since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000)


def duration_ms(text: str) -> int:
    """Milliseconds from `10s`, `500 ms`, `5min`, `2h`, `1d`; a bare number is milliseconds."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text)
    unit = (found[2] or "ms") if found else ""
    if found is None or unit not in _UNITS_MS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: write 500ms, 10s, 5min, 2h or 1d"
        )
    return int(found[1]) * _UNITS_MS[unit]


def setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no setting: write NAME=VALUE")
    return name.strip(), value.strip()


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
