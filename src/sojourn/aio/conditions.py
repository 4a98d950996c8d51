"""Conditions of a wait: what may be waited for, and for how long."""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

import math
from collections.abc import Coroutine
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import AsyncGeneratorType
from typing import Any

from sojourn.errors import OutOfRange, WrongType

if not cython.compiled:
    from sojourn.core.millis import checked_ms
    from sojourn.core.progress import checked_requires

_ASYNCHRONOUS = CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR


def checked_condition(predicate: Any, keys: Any, requires: Any, needed: Any) -> Any:
    """Return the keys of the predicate, or (requires, needed); or say what is wrong."""
    if requires is None:
        if needed is not None:
            raise WrongType("needed goes with requires; a predicate decides by itself")
        if predicate is None and keys is None:
            raise WrongType("nothing to wait for: give a predicate and its keys, or requires")
        if not callable(predicate):
            raise WrongType(f"predicate must be callable, got {predicate!r}")
        code = getattr(predicate, "__code__", None)
        if code is not None and code.co_flags & _ASYNCHRONOUS:
            raise refuse_asynchronous(predicate, None)
        return keys
    if predicate is None and keys is None:
        return requires, needed
    raise WrongType("give a predicate and its keys, or requires; not both")


def is_asynchronous(value: Any) -> bool:
    """Whether the answer is still to come."""
    kind = type(value)
    return hasattr(kind, "__await__") or kind is AsyncGeneratorType


def refuse_asynchronous(predicate: Any, value: Any) -> WrongType:
    if isinstance(value, Coroutine):
        value.close()  # else Python warns that it was never awaited
    return WrongType(
        f"predicate must be a plain function, got {predicate!r}, whose answer has to be awaited; "
        "await first, keep what came of it, and let the predicate look at that"
    )


def checked_signals(signals: Any) -> list[tuple[Any, int]]:
    """Return the (key, offset) pairs of signals, for the loop to send, or say what is wrong."""
    return list(checked_requires(signals))


def as_ms(seconds: Any, name: str) -> int:
    """Whole milliseconds, rounded up, so that nothing is early."""
    try:
        ms = math.ceil(seconds * 1000)
    except (TypeError, ValueError, OverflowError):
        raise OutOfRange(
            f"{name} must be a finite number of seconds, got {seconds!r}"
            + ("; None waits without a limit" if name == "timeout" else "")
        ) from None
    return checked_ms(ms, name)
