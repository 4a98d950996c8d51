"""What add and cancel cost while 10 thousand to 10 million timers are already pending.

A wheel's price should stay flat; a heap's grows with the logarithm. Batches of timers are added
and cancelled again, over and over, on top of the pending ones; the mean of all batches counts,
so collections of garbage are in it, and what a lazy cancel puts off: asyncio and the heap get a
turn after every batch to sweep out their dead. The first batches are not counted; room that a
contender makes for them is there for the rest.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs

if TYPE_CHECKING:
    from benchmarks.case import Row

_WARMUPS = 2


def measure(name: str, params: dict[str, Any]) -> Row:
    contender = contenders.create(name)
    pending = contender.add(contender.prepare(inputs.read(params["pending"])))
    batch = contender.prepare(inputs.read(params["batch"]))
    order = inputs.read(params["cancel_order"])

    def add_and_cancel() -> tuple[int, int]:
        started = perf_counter_ns()
        handles = contender.add(batch)
        added = perf_counter_ns()
        victims = contender.pick(handles, order)
        picked = perf_counter_ns()
        contender.cancel(victims)
        contender.settle()
        return added - started, perf_counter_ns() - picked

    for _ in range(_WARMUPS):
        add_and_cancel()
    spent_ns = [add_and_cancel() for _ in range(params["rounds"])]
    del pending
    contender.close()
    operations = params["rounds"] * len(batch)
    return {
        "add_ns": sum(added for added, _ in spent_ns) / operations,
        "cancel_ns": sum(cancelled for _, cancelled in spent_ns) / operations,
    }
