"""A sweep over the garbage collector: every call, interrupted at each of its allocations.

A collection may start wherever an object is made, and it runs finalisers, which may do anything.
So each public call is made once for each place inside it where a collection can start, and there a
finaliser calls back into the same wheel, timer or purgatory, or has another thread do so. What is
seen afterwards must be what a naive model shows when the same happens between two of its steps.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from tests.core.sweep import futures, loops, progress, purgatories, threads, timers, wheels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.core.sweep.cases import Case


def all_cases() -> Iterator[Case]:
    """Every case, always in the same order."""
    return chain(
        wheels.cases(),
        timers.cases(),
        threads.cases(),
        purgatories.cases(),
        progress.cases(),
        futures.cases(),
        loops.cases(),
    )
