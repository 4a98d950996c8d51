"""Programs at the ends of all time, for wheels of one size.

Run in an interpreter of its own, because a wheel that does not stop would stop its
test too; it says nothing if all is well:

    python -m tests.core.models.corners SIZE PROGRAMS
"""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING

from tests.core.models.checked import check_deadline_wheel, check_timing_wheel
from tests.core.models.programs import Add, Advance, Cancel, Shape, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_MS = 2**61 - 1
TICKS_MS = [1, 1, 1, 7, 20, 2**40, 2**60, LIMIT_MS - 1, LIMIT_MS]
STARTS_MS = [-LIMIT_MS, -LIMIT_MS, -LIMIT_MS + 1, -LIMIT_MS + 41, -(2**60), -1, 0, LIMIT_MS - 40]


def corner_ms(rng: Random, shape: Shape) -> int:
    """A time at an end of the range, at the start, or at the edge of a level."""
    edge_ms: int = shape.tick_ms * shape.wheel_size ** rng.randint(0, 61)
    at_ms = rng.choice([LIMIT_MS, LIMIT_MS, -LIMIT_MS, 0, shape.start_ms, shape.start_ms + edge_ms])
    return max(-LIMIT_MS, min(LIMIT_MS, at_ms + rng.randint(-2, 2)))


def corner_steps(rng: Random, shape: Shape, count: int) -> Iterator[Step]:
    now_ms = shape.start_ms
    for _ in range(count):
        what = rng.random()
        if what < 0.6:
            yield Add(rng.randrange(20), corner_ms(rng, shape))
        elif what < 0.7:
            yield Cancel(rng.randrange(20))
        else:
            now_ms = max(now_ms, min(corner_ms(rng, shape), corner_ms(rng, shape)))
            yield Advance(now_ms)
    yield Advance(max(now_ms, LIMIT_MS - 1))
    yield Advance(LIMIT_MS)


def main(size: int, count: int) -> None:
    for seed in range(count):
        for check in (check_timing_wheel, check_deadline_wheel):
            rng = Random(seed)
            edges_ms = [LIMIT_MS // size, LIMIT_MS // size + 1, 2 * LIMIT_MS // size]
            shape = Shape(rng.choice(TICKS_MS + edges_ms), size, rng.choice(STARTS_MS))
            try:
                check(shape, corner_steps(rng, shape, 40))
            except BaseException as error:
                error.add_note(f"seed {seed}, {shape}")
                raise


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
