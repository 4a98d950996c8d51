"""Milliseconds: checking them, and rounding what clocks tell. Nothing else in the core does that.

Clocks tell nanoseconds, a timer reckons in microseconds, the wheel counts whole milliseconds.
The start of a delay is rounded up, and so is its deadline, to the first tick by which the delay
has wholly passed; the present is rounded down. So nothing ever runs early:

    | 6   | 7   | 8   | 9   | 10  | 11  | 12  | 13  |      tick 1 ms, delay 5 ms
            ^ now: 7.3                    ^     ^
                         wholly passed: 12.3    the deadline: 13
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from operator import index
from typing import Any

if cython.compiled:
    from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow

from sojourn.errors import OutOfRange, WrongType

# A quarter of what 64 bits hold, so that the difference of two times, and a tick, always fit.
LIMIT_MS = 2**61 - 1


def checked_ms(value: Any, name: str) -> int:
    """Return `value` as a whole number of milliseconds in range, or say what is wrong with it."""
    if cython.compiled and type(value) is int:  # to be ready to catch an error costs more
        overflow = 0
        number = PyLong_AsLongLongAndOverflow(value, cython.address(overflow))
        if overflow == 0 and -LIMIT_MS <= number <= LIMIT_MS:
            return number  # type: ignore[no-any-return]
    return _as_ms(value, name)


def _as_ms(value: Any, name: str) -> int:
    try:
        number = index(value)
    except TypeError:
        raise WrongType(
            f"{name} must be an integer number of milliseconds, got {value!r} "
            f"({type(value).__name__}); round it first, e.g. math.ceil(seconds * 1000)"
        ) from None
    if not -LIMIT_MS <= number <= LIMIT_MS:
        raise OutOfRange(
            f"{name} must lie within ±{LIMIT_MS} ms (73 million years), got {value}; "
            "an operation that may wait for ever needs no timer"
        )
    return number


def checked_count(value: Any, name: str, least: int, most: int, advice: str) -> int:
    """Return `value` as an integer in [least, most], or say what is wrong and what to do."""
    given = value
    try:
        value = index(value)
    except TypeError:
        raise WrongType(f"{name} must be an integer ≥ {least}, got {given!r}; {advice}") from None
    if not least <= value <= most:
        raise OutOfRange(f"{name} must be an integer ≥ {least} and ≤ {most}, got {given}; {advice}")
    return value  # type: ignore[no-any-return]


def checked_shape(tick_ms: Any, wheel_size: Any, start_ms: Any) -> tuple[int, int, int]:
    """Return what a wheel is made from, checked."""
    advice = "the default suits most uses"
    return (
        checked_count(tick_ms, "tick_ms", 1, LIMIT_MS, advice),
        checked_count(wheel_size, "wheel_size", 2, 2**20, advice),
        checked_ms(start_ms, "start_ms"),
    )


def ceil_us(ns: int) -> int:
    """Return the first whole microsecond at or after `ns`."""
    return -(-ns // 1000)


def floor_ms(ns: int) -> int:
    """Return the last whole millisecond at or before `ns`."""
    return ns // 1_000_000


def deadline_ms(now_us: int, delay_ms: int, tick_ms: int) -> int:
    """Return the first tick by which `delay_ms` has wholly passed, counted from `now_us`."""
    now_ms = -(-now_us // 1000)
    if delay_ms > LIMIT_MS - now_ms - tick_ms:
        return LIMIT_MS - LIMIT_MS % tick_ms
    if tick_ms == 1:
        return now_ms + delay_ms
    return -(-(now_ms + delay_ms) // tick_ms) * tick_ms
