"""What add and cancel cost while 10 thousand to 10 million timers are already pending.

A wheel's price should stay flat; a heap's grows with the logarithm. Batches of timers are added
and cancelled again, over and over, on top of the pending ones; the mean of all batches counts,
so collections of garbage are in it, and what a lazy cancel puts off: asyncio and the heap get a
turn after every batch to sweep out their dead.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs

if TYPE_CHECKING:
    from benchmarks.case import Row


def measure(name: str, params: dict[str, Any]) -> Row:
    contender = contenders.create(name)
    pending = contender.add(contender.prepare(inputs.read(params["pending"])))
    batch = contender.prepare(inputs.read(params["batch"]))
    order = inputs.read(params["cancel_order"])
    added_ns = cancelled_ns = 0
    for _ in range(params["rounds"]):
        started = perf_counter_ns()
        handles = contender.add(batch)
        added_ns += perf_counter_ns() - started
        victims = contender.pick(handles, order)
        started = perf_counter_ns()
        contender.cancel(victims)
        contender.settle()
        cancelled_ns += perf_counter_ns() - started
    del pending
    contender.close()
    operations = params["rounds"] * len(batch)
    return {"add_ns": added_ns / operations, "cancel_ns": cancelled_ns / operations}
