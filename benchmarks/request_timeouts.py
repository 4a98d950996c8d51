"""A server's request timeouts: many timers added, most cancelled in time, the rest expired.

Timed: building and adding every timer, cancelling 90 % of them in random order, and letting the
rest run once the clock has moved past all of them. The three times are taken one by one; the
total is their sum. Not timed: reading the delays, looking up the handles to cancel, dropping the
handles at the end. Each process plays the whole workload once before the round that counts, so
that fresh memory is not what is measured; the JVM plays it several times.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs

if TYPE_CHECKING:
    from array import array

    from benchmarks.case import Row


def measure(name: str, params: dict[str, Any]) -> Row:
    delays_ms = inputs.read(params["delays"])
    order = inputs.read(params["cancel_order"])
    cancelled = set(order)
    survivors_ms = [ms for i, ms in enumerate(delays_ms) if i not in cancelled]
    del cancelled
    play(name, delays_ms, order, survivors_ms)
    return play(name, delays_ms, order, survivors_ms)


def play(name: str, delays_ms: array[int], order: array[int], survivors_ms: list[int]) -> Row:
    contender = contenders.create(name)
    delays = contender.prepare(delays_ms)
    started = perf_counter_ns()
    handles = contender.add(delays)
    added_ns = perf_counter_ns() - started

    victims = contender.pick(handles, order)
    started = perf_counter_ns()
    contender.cancel(victims)
    cancelled_ns = perf_counter_ns() - started

    row: Row = {
        "add_ns": added_ns / len(delays_ms),
        "cancel_ns": cancelled_ns / len(order),
    }
    if contender.expires:
        contender.before_expiry(survivors_ms)
        started = perf_counter_ns()
        ran = contender.expire()
        expired_ns = perf_counter_ns() - started
        if ran != len(survivors_ms):
            raise AssertionError(f"{ran} of {len(survivors_ms)} timers ran")
        row["expire_ns"] = expired_ns / ran
        row["total_ms"] = (added_ns + cancelled_ns + expired_ns) / 1e6
    contender.close()
    return row
