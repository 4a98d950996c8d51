"""A server's request timeouts: many timers added, most cancelled in time, the rest expired.

Timed: building and adding every timer, cancelling 90 % of them in random order, and letting the
rest run once the clock has moved past all of them. The three times are taken one by one; the
total is their sum, and `cpu_ms` is the processor time of the three. Not timed: reading the delays,
looking up the handles to cancel, dropping the handles at the end. Each process plays the whole
workload once before the round that counts, so that fresh memory is not what is measured; the JVM
plays it several times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs
from benchmarks.stopwatch import Stopwatch

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
    adding, cancelling, expiring = Stopwatch(), Stopwatch(), Stopwatch()
    with adding:
        handles = contender.add(delays)
    victims = contender.pick(handles, order)
    with cancelling:
        contender.cancel(victims)

    row: Row = {
        "add_ns": adding.wall_ns / len(delays_ms),
        "add_cpu_ns": adding.cpu_ns / len(delays_ms),
        "cancel_ns": cancelling.wall_ns / len(order),
        "cancel_cpu_ns": cancelling.cpu_ns / len(order),
    }
    if contender.expires:
        contender.before_expiry(survivors_ms)
        with expiring:
            ran = contender.expire()
        if ran != len(survivors_ms):
            raise AssertionError(f"{ran} of {len(survivors_ms)} timers ran")
        row["expire_ns"] = expiring.wall_ns / ran
        row["expire_cpu_ns"] = expiring.cpu_ns / ran
        row["total_ms"] = (adding.wall_ns + cancelling.wall_ns + expiring.wall_ns) / 1e6
    row["cpu_ms"] = (adding.cpu_ns + cancelling.cpu_ns + expiring.cpu_ns) / 1e6
    contender.close()
    return row
