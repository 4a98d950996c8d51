"""The numbers every contender works on: made once a run from a fixed seed, shared as files.

A file holds 64-bit integers in the machine's byte order, so that Python and Java read exactly
the same delays, the same cancel order and the same purgatory schedule.
"""

from __future__ import annotations

import math
import random
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SEED = 20_150_901
DELAY_MS_MAX = 30_000

TIMEOUT_MS = 30_000
KEYS_PER_OPERATION = 3
FORCE_KEY_SPACE = 100
SIGNAL_KEY_SPACE = 3 * 65_536

# Kafka's purgatory test draws the time to completion from a log-normal distribution given by
# two percentiles; 20 ms and 60 ms are those of its published run. 0.674490 is the 75th
# percentile of the standard normal distribution, so sigma ≈ 1.63 and the mean ≈ 75 ms.
COMPLETION_MS_P50 = 20.0
COMPLETION_MS_P75 = 60.0
COMPLETION_SIGMA = math.log(COMPLETION_MS_P75 / COMPLETION_MS_P50) / 0.674490


def read(path: Path | str) -> array[int]:
    values: array[int] = array("q")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


@dataclass(frozen=True)
class Schedule:
    """Submissions and completions in time order.

    `events` holds `2 × operation` for a submission and `2 × operation + 1` for its completion;
    `at_us` says when. It ends with the last submission: what still waits then is left waiting.
    """

    events: Path
    at_us: Path


class Inputs:
    """Makes each file the first time somebody asks for it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._schedules: dict[tuple[int, int], Schedule] = {}

    def delays(self, n: int) -> Path:
        """`n` delays in ms, uniform from 1 ms to 30 s."""
        name = f"delays-{n}"
        rng = random.Random(f"{SEED} {name}")
        return self._file(name, (1 + int(rng.random() * DELAY_MS_MAX) for _ in range(n)))

    def shuffled(self, n: int, take: int) -> Path:
        """The first `take` of the numbers 0..n-1 in random order."""
        name = f"shuffled-{n}-{take}"
        rng = random.Random(f"{SEED} {name}")
        return self._file(name, (i for i in rng.sample(range(n), take)))

    def counted(self, n: int) -> Path:
        """The numbers 0..n-1 in order."""
        return self._file(f"counted-{n}", range(n))

    def keys(self, variant: str, operations: int) -> Path:
        """The keys of each operation, one after the other.

        force, shared: drawn from 100, as in Kafka's test. signal: counted up round a space so
        large that a key is watched by about one live operation.
        """
        name = f"keys-{variant}-{operations}"
        count = KEYS_PER_OPERATION * operations
        if variant == "signal":
            return self._file(name, (i % SIGNAL_KEY_SPACE for i in range(count)))
        rng = random.Random(f"{SEED} {name}")
        return self._file(name, (int(rng.random() * FORCE_KEY_SPACE) for _ in range(count)))

    def schedule(self, rate: int, operations: int) -> Schedule:
        """Poisson arrivals at `rate` a second, log-normal times to completion."""
        if (rate, operations) not in self._schedules:
            self._schedules[rate, operations] = self._make_schedule(rate, operations)
        return self._schedules[rate, operations]

    def trace(self, operations: int, hot_share: float = 0.0, files: int = 4) -> Path:
        """A folder of operations and signals as Parquet, with this share of them on one key."""
        from benchmarks.contenders.rows import write_trace

        folder = self._folder / f"trace-{operations}-{hot_share}-{files}"
        if not folder.exists():
            keys = operations // 10
            write_trace(folder, operations, keys=keys, hot_share=hot_share, files=files, seed=SEED)
        return folder

    def _make_schedule(self, rate: int, operations: int) -> Schedule:
        name = f"schedule-{rate}-{operations}"
        rng = random.Random(f"{SEED} {name}")
        timeline: list[tuple[int, int]] = []
        now_us = 0.0
        for operation in range(operations):
            now_us += rng.expovariate(rate / 1e6)
            wait_ms = rng.lognormvariate(math.log(COMPLETION_MS_P50), COMPLETION_SIGMA)
            timeline.append((int(now_us), 2 * operation))
            if wait_ms < TIMEOUT_MS:
                timeline.append((int(now_us + wait_ms * 1_000) + 1, 2 * operation + 1))
        timeline = sorted(entry for entry in timeline if entry[0] <= now_us)
        return Schedule(
            events=self._file(f"{name}-events", (event for _, event in timeline)),
            at_us=self._file(f"{name}-at-us", (at_us for at_us, _ in timeline)),
        )

    def _file(self, name: str, values: Iterable[int]) -> Path:
        path = self._folder / name
        if not path.exists():
            path.write_bytes(array("q", values).tobytes())
        return path
