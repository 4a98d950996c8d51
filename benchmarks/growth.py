"""What add and cancel cost while 10 thousand to 10 million timers are already pending.

A wheel's price should stay flat; a heap's grows with the logarithm. Batches of timers are added
and cancelled again, over and over, on top of the pending ones; the mean of all batches counts,
so collections of garbage are in it, and what a lazy cancel puts off: asyncio and the heap get a
turn after every batch to sweep out their dead. The first batches are not counted; room that a
contender makes for them is there for the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import contenders, inputs
from benchmarks.stopwatch import Stopwatch

if TYPE_CHECKING:
    from benchmarks.case import Row

_WARMUPS = 2


def measure(name: str, params: dict[str, Any]) -> Row:
    contender = contenders.create(name)
    pending = contender.add(contender.prepare(inputs.read(params["pending"])))
    batch = contender.prepare(inputs.read(params["batch"]))
    order = inputs.read(params["cancel_order"])

    def add_and_cancel(adding: Stopwatch, cancelling: Stopwatch) -> None:
        with adding:
            handles = contender.add(batch)
        victims = contender.pick(handles, order)
        with cancelling:
            contender.cancel(victims)
            contender.settle()

    for _ in range(_WARMUPS):
        add_and_cancel(Stopwatch(), Stopwatch())
    adding, cancelling = Stopwatch(), Stopwatch()
    for _ in range(params["rounds"]):
        add_and_cancel(adding, cancelling)
    del pending
    contender.close()
    operations = params["rounds"] * len(batch)
    return {
        "add_ns": adding.wall_ns / operations,
        "add_cpu_ns": adding.cpu_ns / operations,
        "cancel_ns": cancelling.wall_ns / operations,
        "cancel_cpu_ns": cancelling.cpu_ns / operations,
        "cpu_ns": (adding.cpu_ns + cancelling.cpu_ns) / operations,
    }
