"""Times and durations as people write them, in whole milliseconds; what is finer is rounded down.

2026-01-06T12:00   2026-01-06T12:00:00.5+01:00      ISO 8601; without a zone it is UTC
500ms   10 s   5min   5m   2h   1d
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]+)")


def moment_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 of a time; None if the text is none."""
    try:
        return datetime_ms(datetime.fromisoformat(text))
    except ValueError:
        return None


def datetime_ms(moment: datetime) -> int:
    """Return the milliseconds since 1970 of a datetime, which is UTC if it has no zone."""
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def moment_text(ms: int, timespec: str = "milliseconds") -> str:
    """Return the time that is `ms` after 1970, in UTC; beyond the year 9999, just the number."""
    try:
        moment = _EPOCH + ms * _MILLISECOND
    except OverflowError:
        return f"{ms} ms"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def duration_ms(text: str) -> int | None:
    """Return the milliseconds of a duration; None if the text is none."""
    match = _DURATION.fullmatch(text)
    if match is None or match[2] not in _UNITS_MS:
        return None
    return int(match[1]) * _UNITS_MS[match[2]]
