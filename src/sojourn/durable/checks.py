"""Checks of what callers pass: ids, keys, names, offsets, and rows of them.

Each returns what it was given, as it goes on, or raises what is wrong with it.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import re
from collections.abc import Callable, Iterable
from operator import index
from typing import Any, TypeVar

from sojourn.errors import OutOfRange, SojournError, WrongType

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize

TEXT_BYTES_MAX = 1024  # of an id, a key, a class or a subscription's name
LONGEST_MS = 10**15  # 30,000 years, as far as a clock goes

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")

T = TypeVar("T")


def checked_id(id: Any) -> str:
    """Return the id, or say what is wrong with it."""
    text_size(id, "id")
    return id  # type: ignore[no-any-return]


def checked_name(name: Any) -> str:
    """Return a name, of a subscription say, or say what is wrong with it."""
    text_size(name, "name")
    return name  # type: ignore[no-any-return]


def checked_signal(key: Any, offset: Any) -> tuple[str, int]:
    """Return the signal, or say what is wrong with it."""
    text_size(key, "key")
    return key, checked_offset(offset)


def checked_offset(offset: Any) -> int:
    """Return the offset as an integer of 64 bits, or say what is wrong with it."""
    offset = checked_integer(offset, "an offset")
    if not -(2**63) <= offset < 2**63:
        raise OutOfRange(f"an offset must fit into 64 bits, got {offset}")
    return offset  # type: ignore[no-any-return]


def checked_integer(value: Any, name: str) -> Any:
    """Return the value as an int, or say that it is none."""
    if type(value) is int:
        return value
    try:
        return index(value)
    except TypeError:
        raise WrongType(
            f"{name} must be an integer, got {value!r} ({type(value).__name__})"
        ) from None


def text_size(value: Any, name: str) -> int:
    """Return how many bytes of UTF-8 the text has, or say what is wrong with it."""
    if type(value) is not str:
        raise WrongType(f"{name} must be a str, got {value!r} ({type(value).__name__})")
    size = 0
    try:
        if cython.compiled:
            PyUnicode_AsUTF8AndSize(value, cython.address(size))
        else:
            size = len(value.encode())
    except UnicodeEncodeError as error:
        raise OutOfRange(f"{name} cannot be written as UTF-8: {error}") from None
    if not 1 <= size <= TEXT_BYTES_MAX:
        raise OutOfRange(f"{name} must have 1 to {TEXT_BYTES_MAX} bytes of UTF-8, got {size}")
    return size


def checked_trace(traceparent: Any) -> bytes:
    """Return the bytes of a W3C traceparent: trace id, parent id, flags."""
    if type(traceparent) is not str:
        raise WrongType(
            f"traceparent must be a str, got {traceparent!r} ({type(traceparent).__name__})"
        )
    parts = _TRACEPARENT.fullmatch(traceparent)
    if parts is None:
        raise OutOfRange(
            "traceparent must be 00-<32 hex>-<16 hex>-<2 hex> in lower case, ids not all zero "
            f"(W3C Trace Context), got {traceparent[:100]!r}"
        )
    return bytes.fromhex("".join(parts.groups()))


# Rows of a batch call.


def check_each(rows: Iterable[Any], check: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Check each row for itself: return the good ones, and for each row None or its error."""
    good: list[Any] = []
    errors: list[Any] = []
    for row in rows:
        try:
            good.append(check(row))
            errors.append(None)
        except SojournError as error:
            errors.append(error)
    return good, errors


def call_with_row(submit: Callable[..., T], row: Any) -> T:
    """Call `submit` with a row: its arguments as a tuple in their order, or as a dictionary."""
    if isinstance(row, dict):
        try:
            return submit(**row)
        except TypeError as error:
            if isinstance(error, SojournError):
                raise
            raise WrongType(f"a row has the arguments of submit, got {row!r}: {error}") from None
    if not isinstance(row, (tuple, list)) or not 3 <= len(row) <= 7:
        raise WrongType(
            "a row is (id, requires, timeout_ms), then needed, class_, payload and traceparent "
            f"if need be; got {row!r}"
        )
    return submit(*row)


def checked_signal_row(row: Any) -> tuple[str, int]:
    """Return the signal of a row, or say what is wrong with it."""
    if not isinstance(row, (tuple, list)) or len(row) != 2:
        raise WrongType(f"a row is (key, offset), got {row!r}")
    return checked_signal(*row)
