"""Random programs for wheels: what to do, step by step, from a seed alone.

Run as a script it works a program through the wheels and prints everything they say, so that two
builds, or two runs, can be compared letter by letter:

    python -m tests.core.models.programs SEED STEPS
"""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from sojourn import DeadlineWheel, TimerTask, TimingWheel

if TYPE_CHECKING:
    from collections.abc import Iterator

CENTURY_MS = 3_155_760_000_000
NAMES = 200


class Shape(NamedTuple):
    """What a wheel is made from."""

    tick_ms: int
    wheel_size: int
    start_ms: int


class Add(NamedTuple):
    """Put a name in, or move it."""

    name: int
    expiration_ms: int


class Cancel(NamedTuple):
    """Take a name out, if it waits."""

    name: int


class Advance(NamedTuple):
    """Move time."""

    now_ms: int


Step = Add | Cancel | Advance


def random_shape(rng: Random) -> Shape:
    start_ms = rng.choice(
        [
            0,
            rng.randint(1, 10**6),
            -rng.randint(1, 10**6),
            1_741_654_300_000 + rng.randint(0, 999),
            -50 * CENTURY_MS + rng.randint(0, 999),
            2**60 + rng.randint(0, 999),
            -(2**60) - rng.randint(0, 999),
        ]
    )
    return Shape(rng.choice([1, 1, rng.randint(1, 50)]), rng.randint(2, 64), start_ms)


def random_delay_ms(rng: Random, shape: Shape) -> int:
    """From a little in the past to centuries; each level of the wheel gets its share."""
    span_ms = shape.tick_ms * shape.wheel_size ** rng.randint(0, 3)
    return rng.choice(
        [
            rng.randint(-5, 5),
            rng.randint(0, span_ms),
            rng.randint(0, span_ms),
            rng.randint(0, span_ms),
            rng.randint(0, 20 * CENTURY_MS),
        ]
    )


def random_steps(rng: Random, shape: Shape, count: int) -> Iterator[Step]:
    """Add, move, cancel and advance; names come from a small pool, so that most are used again."""
    now_ms = shape.start_ms
    for _ in range(count):
        what = rng.random()
        if what < 0.5:
            yield Add(rng.randrange(NAMES), now_ms + random_delay_ms(rng, shape))
        elif what < 0.7:
            yield Cancel(rng.randrange(NAMES))
        else:
            by_ms = rng.choice(
                [
                    0,
                    1,
                    rng.randint(0, 2 * shape.tick_ms),
                    rng.randint(0, 2 * shape.tick_ms * shape.wheel_size),
                    rng.randint(0, shape.tick_ms * shape.wheel_size**2),
                ]
            )
            if rng.random() < 0.01:
                by_ms = rng.randint(0, 5 * CENTURY_MS)
            now_ms += by_ms
            yield Advance(now_ms)


def log_of_a_timing_wheel(shape: Shape, steps: Iterator[Step]) -> Iterator[str]:
    wheel = TimingWheel(*shape)
    tasks = [TimerTask(name) for name in range(NAMES)]  # its delay serves as its name
    for step in steps:
        match step:
            case Add(name, expiration_ms):
                said: object = wheel.add(tasks[name], expiration_ms)
            case Cancel(name):
                said = tasks[name].cancel()
            case Advance(now_ms):
                said = [task.delay_ms for task in wheel.advance(now_ms)]
        yield f"{step} {said} {len(wheel)} {wheel.next_expiration_ms}"
    yield str(wheel.snapshot())


def log_of_a_deadline_wheel(shape: Shape, steps: Iterator[Step]) -> Iterator[str]:
    wheel = DeadlineWheel(*shape)
    handles: dict[int, int] = {}
    for step in steps:
        match step:
            case Add(name, expiration_ms):
                moved = wheel.cancel_many([handles[name]]) if name in handles else 0
                handles[name] = wheel.add_many([expiration_ms])[0]
                said: object = (moved, handles[name])
            case Cancel(name):
                said = wheel.cancel_many([handles[name]]) if name in handles else 0
            case Advance(now_ms):
                said = list(wheel.advance(now_ms))
        yield f"{step} {said} {len(wheel)} {wheel.next_expiration_ms}"


def main(seed: int, count: int) -> None:
    for log in (log_of_a_timing_wheel, log_of_a_deadline_wheel):
        rng = Random(seed)
        for _ in range(10):
            shape = random_shape(rng)
            print(log.__name__, shape)
            for line in log(shape, random_steps(rng, shape, count // 20)):
                print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
