"""A clock to the nanosecond, and purgatories whose operations have waited exactly so long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn import DelayedOperation, Purgatory, Timer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sojourn.core.clock import Driver


class FineClock:
    """A clock that is set by hand to the nanosecond, and turns nothing by itself."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns

    def drive(self, timer: Timer) -> Driver:
        return _Idle()


class _Idle:
    def wake(self) -> None: ...

    def wait_expired(self, seen: int, timeout_ms: int) -> None: ...

    def close(self, finish: bool, wait: bool = True) -> None: ...


def purgatory_that_waited(durations_us: Iterable[int]) -> Purgatory:
    """A purgatory whose operations have waited that long."""
    clock = FineClock()
    purgatory = Purgatory(timer=Timer(clock))
    for duration_us in durations_us:
        operation = DelayedOperation(10**15)
        purgatory.try_complete_else_watch(operation, ["a"])
        clock.ns += duration_us * 1000
        assert operation.force_complete()
    return purgatory
