"""Histograms: cumulative buckets with exact counts and sums."""

from __future__ import annotations

import math
import random

import pytest

from sojourn import DelayedOperation, Purgatory, Timer
from sojourn.metrics import Collector
from tests.core.fine_clock import FineClock, purgatory_that_waited
from tests.metrics.scrapes import histogram, scrape


@pytest.mark.parametrize("name", ["waiting", "lateness"])
def test_buckets_are_cumulative_and_end_with_all(name: str) -> None:
    clock = FineClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    rng = random.Random(3)
    for _ in range(300):
        purgatory.try_complete_else_watch(DelayedOperation(1), ["a"])
        clock.ns += int(10 ** rng.uniform(6.1, 15))
        timer.turn()
        timer.run_ready()
    families = scrape(Collector(purgatory))
    buckets, count, _ = histogram(families, f"sojourn_purgatory_{name}_seconds")
    bounds = [le for le, _ in buckets]
    counts = [count for _, count in buckets]
    assert bounds == sorted(set(bounds))
    assert counts == sorted(counts)
    assert bounds[-1] == math.inf
    assert counts[-1] == count == 300
    assert len(set(counts)) > 10  # or there would be nothing to see


def test_a_sum_of_a_century_does_not_go_back() -> None:
    """Not even by a microsecond of rounding: to Prometheus that would be a restart."""
    long_us = 3_961_435_819_265_051
    for ended_at_once in range(8):
        purgatory = purgatory_that_waited([long_us] + [0] * ended_at_once)
        _, _, total = histogram(scrape(Collector(purgatory)), "sojourn_purgatory_waiting_seconds")
        assert total == long_us / 1e6


def _around_bounds() -> list[int]:
    return [2**power + n for power in range(45) for n in (-1, 0, 1)]


@pytest.mark.parametrize(
    "durations_us",
    [_around_bounds(), *([int(10 ** random.Random(s).uniform(0, 12))] * 20 for s in range(3))],
)
def test_a_bucket_counts_exactly_the_durations_up_to_its_bound(durations_us: list[int]) -> None:
    assert _exact_buckets(durations_us) > 20


@pytest.mark.parametrize("seed", range(5))
def test_counts_and_sums_of_random_durations_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    durations_us = [int(10 ** rng.uniform(0, 11)) for _ in range(rng.randrange(1, 2_000))]
    assert _exact_buckets(durations_us) > 0


def _exact_buckets(durations_us: list[int]) -> int:
    """Check the histogram of operations that waited so long; say how many buckets it has."""
    purgatory = purgatory_that_waited(durations_us)
    families = scrape(Collector(purgatory))
    buckets, count, total = histogram(families, "sojourn_purgatory_waiting_seconds")
    for le, cumulative in buckets:
        assert cumulative == sum(us / 1e6 <= le for us in durations_us), le
    assert (count, total) == (len(durations_us), sum(durations_us) / 1e6)
    return len(buckets)
