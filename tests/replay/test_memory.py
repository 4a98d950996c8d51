"""What either side says of its memory: to the byte what it takes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from sojourn.replay.alarms import Alarms
from sojourn.replay.arrays import integers
from sojourn.replay.progress import Progress
from sojourn.replay.waiting import Waiting
from tests.replay.batches import cancels, candidates, requirements, signals, submissions

COUNT = 60


def array_bytes(fill: Callable[[], Progress | Waiting]) -> tuple[Progress | Waiting, int]:
    """Return what was filled, and how much its NumPy arrays take."""
    fill()  # what is made once for all
    gc.collect()
    tracemalloc.start()
    try:
        side = fill()
        gc.collect()
        taken = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    of_arrays = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    return side, sum(trace.size for trace in taken.filter_traces([of_arrays]).traces)


def wheel_bytes(alarms: int) -> int:
    """Return what a wheel takes in which so many alarms were set: 32 bytes for each of its slots.

    Of a slot the owner is in an array.
    """
    some = Alarms()
    some.reserve(alarms)
    arrays = some.nbytes
    some.set_many(integers(np.arange(alarms), "i"), integers(np.arange(alarms)), 0)
    return (some.nbytes - arrays) * 32 // 36


def forest_bytes(nodes: int) -> int:
    """Return what a forest takes with room for so many: two links, a parent and a key for each."""
    return (2 * 4 + 4 + 8) * (1 + (max(nodes, 16) if nodes else 0))


def nothing_waits() -> Waiting:
    return Waiting()


def operations_wait() -> Waiting:
    waiting = Waiting()
    waiting.apply(submissions(*((f"id {n}", n, 9000) for n in range(COUNT))), None, None, 0)
    return waiting


def operations_wait_with_many_candidates() -> Waiting:
    waiting = Waiting()
    rows = submissions(*((f"id {n}", n, 9000) for n in range(COUNT)), needed=30, count=40)
    news = candidates(*((f"id {n}", m, f"key {m}", 800) for n in range(COUNT) for m in (3, 39)))
    waiting.apply(rows, news, None, 0)
    return waiting


def operations_have_ended() -> Waiting:
    waiting = Waiting()
    waiting.apply(submissions(*((f"id {n}", n, n) for n in range(COUNT))), None, None, COUNT)
    return waiting


def operations_were_refused() -> Waiting:
    waiting = Waiting()
    waiting.apply(submissions(*(("id", n, n) for n in range(COUNT))), None, None, COUNT)
    return waiting


def operations_were_replaced() -> Waiting:
    waiting = Waiting()
    waiting.apply(submissions(*(("id", -n, 0) for n in range(COUNT))), None, None, 0)
    return waiting


def cancels_are_ahead() -> Waiting:
    waiting = Waiting()
    waiting.apply(None, None, cancels(*((f"id {n}", n + 1) for n in range(COUNT))), 0)
    return waiting


def nobody_waits() -> Progress:
    return Progress()


def requirements_wait() -> Progress:
    progress = Progress()
    rows = ((f"id {n}", f"key {n}", 5, n, 9000) for n in range(COUNT))
    progress.apply(requirements(*rows), None, 0)
    return progress


def requirements_were_bettered() -> Progress:
    progress = Progress()
    progress.apply(requirements(*((f"id {n}", "k", n, n, 9000) for n in range(COUNT))), None, 0)
    progress.apply(None, signals(("k", COUNT, 8000)), 1)
    return progress


def requirements_held_at_once() -> Progress:
    progress = Progress()
    rows = requirements(*((f"id {n}", "k", 0, n, 9000) for n in range(COUNT)))
    progress.apply(rows, signals(("k", 0, 0)), 0)
    return progress


def signals_are_ahead() -> Progress:
    progress = Progress()
    progress.apply(None, signals(*((f"key {n}", 5, n + 1) for n in range(COUNT))), 0)
    return progress


def signals_were_set_aside() -> Progress:
    progress = Progress(forget_keys_after_ms=1)
    progress.apply(None, signals(*(("k", n, 10 * n) for n in range(COUNT))), 10 * COUNT)
    return progress


@pytest.mark.parametrize(
    ("fill", "wheel", "forests"),
    [
        (nothing_waits, 0, ()),
        (operations_wait, COUNT, ()),
        (operations_wait_with_many_candidates, COUNT, ()),
        (operations_have_ended, 0, ()),
        (operations_were_refused, 0, ()),
        (operations_were_replaced, 0, ()),
        (cancels_are_ahead, COUNT, ()),
        (nobody_waits, 0, (0, 0)),
        (requirements_wait, COUNT, (COUNT, 0)),
        (requirements_were_bettered, COUNT, (COUNT, 1)),
        (requirements_held_at_once, 0, (COUNT, 1)),
        (signals_are_ahead, COUNT, (0, COUNT)),
        (signals_were_set_aside, 0, (0, COUNT)),
    ],
)
def test_a_side_says_how_much_memory_it_takes(
    fill: Callable[[], Progress | Waiting], wheel: int, forests: tuple[int, ...]
) -> None:
    side, arrays = array_bytes(fill)
    beside = sum(forest_bytes(nodes) for nodes in forests)
    if wheel:
        beside += wheel_bytes(wheel)
    if fill is requirements_were_bettered:
        beside += wheel_bytes(1)  # of the signal
    empty = arrays + beside - side.nbytes  # NumPy takes a byte for an array of no length
    assert 0 <= empty < 20
