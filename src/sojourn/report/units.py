"""Numbers as people read them: durations, moments, counts and shares."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration(ms: int) -> str:
    """`845 ms`, `12.3 s`, `3 min 12 s`, `9 h 4 min`, `2 d 3 h`: two units at most, rounded."""
    if ms < SECOND_MS:
        return f"{ms} ms"
    tenths = (ms + 50) // 100
    if tenths < 600:
        return f"{tenths // 10}.{tenths % 10} s" if tenths % 10 else f"{tenths // 10} s"
    if (seconds := (ms + 500) // SECOND_MS) < 3_600:
        return _two(seconds // 60, "min", seconds % 60, "s")
    if (minutes := (ms + MINUTE_MS // 2) // MINUTE_MS) < 24 * 60:
        return _two(minutes // 60, "h", minutes % 60, "min")
    if (hours := (ms + HOUR_MS // 2) // HOUR_MS) < 100 * 24:
        return _two(hours // 24, "d", hours % 24, "h")
    if (days := (ms + DAY_MS // 2) // DAY_MS) < 10 * 365:
        return f"{count(days)} d"
    return f"{count((ms + YEAR_MS // 2) // YEAR_MS)} years"


def moment(ms: int, *, date: bool = True) -> str:
    """`5 Jan 2026, 12:10:03` in UTC; the bare milliseconds for what no calendar knows."""
    try:
        at = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{count(ms)} ms"
    clock = f"{at:%H:%M}" if at.second == 0 else f"{at:%H:%M:%S}"
    return f"{at.day} {at:%b} {at.year}, {clock}" if date else clock


def count(number: int) -> str:
    """`1,234,567`."""
    return f"{number:,}"


def share(part: int, whole: int) -> str:
    """`3.4 %`; never `0 %` or `100 %` of what is only nearly so."""
    if whole == 0:
        return "–"
    if part == 0:
        return "0 %"
    if part == whole:
        return "100 %"
    for digits in (1, 2, 3):
        rounded = round(100 * part / whole, digits)
        if 10**-digits <= rounded <= 100 - 10**-digits and (rounded >= 1 or digits > 1):
            if rounded > 99 and digits == 1:
                continue
            return f"{rounded:.{digits}f} %"
    return "< 0.001 %" if part < whole - part else "> 99.999 %"


def percent(part: float) -> str:
    """A share that is not of two counts."""
    return share(round(part * 10**12), 10**12)


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large} {large_unit} {small} {small_unit}" if small else f"{large} {large_unit}"
