"""What a purgatory counts: totals, lateness and waiting times."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.core.histogram import Histogram
from sojourn.core.residents import PurgatoryMetrics
from tests.core.fine_clock import FineClock, purgatory_that_waited

if TYPE_CHECKING:
    pass


def _percentile(durations: list[float], percent: float) -> float:
    """The truth: the smallest duration that `percent` of all did not exceed."""
    ordered = sorted(durations)
    wanted = len(ordered) * percent / 100
    return next(one for seen, one in enumerate(ordered, 1) if seen >= wanted)


def test_a_new_purgatory_has_counted_nothing(purgatory: Purgatory) -> None:
    metrics = purgatory.metrics()
    assert (metrics.watched, metrics.delayed, metrics.errors) == (0, 0, 0)
    assert (metrics.completed, metrics.expired, metrics.cancelled) == (0, 0, 0)
    for histogram in (metrics.lateness, metrics.waiting, Histogram().snapshot()):
        assert (histogram.count, histogram.mean_ms, histogram.max_ms) == (0, 0.0, 0.0)
        assert histogram.percentile_ms(50) == 0.0
        assert sum(histogram.counts) == 0
        assert "0 durations" in repr(histogram)
    counted_no_more = PurgatoryMetrics(0, 0, 0, 0, 0, 0, metrics.lateness, metrics.waiting)
    assert metrics == counted_no_more  # refused, missed signals and so on


def test_every_way_out_has_its_total(manual_clock: ManualClock, purgatory: Purgatory) -> None:
    class Ready(DelayedOperation):
        def try_complete(self) -> bool:
            return self.force_complete()

    class Raises(DelayedOperation):
        def on_complete(self) -> None:
            raise ValueError("mine")

    for _ in range(2):
        purgatory.try_complete_else_watch(Ready(10), ["a"])
    for _ in range(3):
        purgatory.try_complete_else_watch(DelayedOperation(10), ["b"])
    for _ in range(4):
        purgatory.try_complete_else_watch(DelayedOperation(10), ["c", "d"])
    purgatory.try_complete_else_watch(Raises(10), ["e"])
    purgatory.try_complete_else_watch(DelayedOperation(1000), ["f", "g"])
    purgatory.cancel_for_key("d")
    manual_clock.advance(10)
    metrics = purgatory.metrics()
    assert (metrics.watched, metrics.delayed) == (2, 1)
    assert (metrics.completed, metrics.expired, metrics.cancelled) == (2, 4, 4)
    assert metrics.errors == 1
    assert metrics.lateness.count == 4  # of the expired
    assert metrics.waiting.count == 6  # of those that ended here


def test_metrics_are_of_their_moment(purgatory: Purgatory) -> None:
    operation = DelayedOperation(10)
    purgatory.try_complete_else_watch(operation, ["a"])
    before = purgatory.metrics()
    operation.force_complete()
    assert (before.watched, before.completed, before.waiting.count) == (1, 0, 0)
    after = purgatory.metrics()
    assert (after.watched, after.completed, after.waiting.count) == (0, 1, 1)


def test_an_operation_completed_by_its_submission_has_waited_nothing(purgatory: Purgatory) -> None:
    class Ready(DelayedOperation):
        def try_complete(self) -> bool:
            return True

    purgatory.try_complete_else_watch(Ready(10), ["a"])
    purgatory.signal("p", 1)
    purgatory.try_complete_else_watch(DelayedOperation(10), requires=[("p", 1)])
    assert purgatory.metrics().completed == 2
    waiting = purgatory.metrics().waiting
    assert (waiting.count, waiting.mean_ms, waiting.max_ms) == (2, 0.0, 0.0)


def test_waiting_for_progress_runs_from_submission_to_the_signal(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    manual_clock.advance(7)
    purgatory.try_complete_else_watch(DelayedOperation(100), requires=[("p", 1)])
    manual_clock.advance(30)
    assert purgatory.signal("p", 1) == 1
    waiting = purgatory.metrics().waiting
    assert (waiting.count, waiting.mean_ms, waiting.max_ms) == (1, 30.0, 30.0)


def test_waiting_runs_from_submission_to_the_end(
    manual_clock: ManualClock, purgatory: Purgatory
) -> None:
    first, second = DelayedOperation(100), DelayedOperation(100)
    purgatory.try_complete_else_watch(first, ["a"])
    manual_clock.advance(30)
    purgatory.try_complete_else_watch(second, ["a"])
    manual_clock.advance(20)
    first.force_complete()  # after 50
    manual_clock.advance(100)  # the second expires after 100
    waiting = purgatory.metrics().waiting
    assert (waiting.count, waiting.mean_ms, waiting.max_ms) == (2, 75.0, 100.0)


def test_an_expiry_on_time_is_not_late(manual_clock: ManualClock, purgatory: Purgatory) -> None:
    purgatory.try_complete_else_watch(DelayedOperation(100), ["a"])
    manual_clock.advance(5000)  # runs it at its own moment on the way
    lateness = purgatory.metrics().lateness
    assert (lateness.count, lateness.max_ms) == (1, 0.0)


def test_lateness_runs_from_the_deadline_to_the_expiry() -> None:
    clock = FineClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    purgatory.try_complete_else_watch(DelayedOperation(100), ["a"])
    clock.ns = 107_250_000
    timer.turn()
    timer.run_ready()
    lateness = purgatory.metrics().lateness
    assert (lateness.count, lateness.mean_ms, lateness.max_ms) == (1, 7.25, 7.25)


def test_an_operation_that_is_due_at_once_is_late_from_its_submission_on() -> None:
    clock = FineClock()
    timer = Timer(clock)
    purgatory = Purgatory(timer=timer)
    clock.ns = 10_000_000_000
    purgatory.try_complete_else_watch(DelayedOperation(0), ["a"])
    clock.ns += 3_000_000
    timer.run_ready()
    lateness = purgatory.metrics().lateness
    assert (lateness.count, lateness.mean_ms, lateness.max_ms) == (1, 3.0, 3.0)


def test_lateness_on_the_system_clock_is_that_of_a_timer_that_works() -> None:
    with Purgatory() as purgatory:
        futures = [purgatory.submit(DelayedOperation(n % 5), ["a"]) for n in range(200)]
        for future in futures:
            assert future.result(timeout=60) is False
        metrics = purgatory.metrics()
        assert metrics.lateness.count == 200
        assert metrics.waiting.count == 200
        # It waited its timeout and was late on top of that; a deadline is rounded up by < 1 ms.
        assert metrics.waiting.mean_ms >= 2.0


@pytest.mark.parametrize(
    "durations_us",
    [
        [*range(1, 200)],
        [10**n for n in range(13)],
        [2**n for n in range(50)],
        [2**n - 1 for n in range(50)],
        [5_000] * 50,
        [0] * 10 + [7] * 10 + [3_600_000_000],
    ],
    ids=["small", "tens", "twos", "below twos", "all one", "mixed"],
)
def test_percentiles_are_within_an_eighth_of_the_truth(durations_us: list[int]) -> None:
    _check_percentiles(durations_us)


@pytest.mark.parametrize("seed", range(10))
def test_percentiles_of_random_durations_are_within_an_eighth_of_the_truth(seed: int) -> None:
    rng = random.Random(seed)
    spread = rng.choice((4.0, 8.0, 11.0))
    _check_percentiles([int(10 ** rng.uniform(0, spread)) for _ in range(500)])


def _check_percentiles(durations_us: list[int]) -> None:
    histogram = purgatory_that_waited(durations_us).metrics().waiting
    durations_ms = [duration_us / 1000 for duration_us in durations_us]
    assert histogram.count == sum(histogram.counts) == len(durations_us)
    assert histogram.max_ms == max(durations_ms)
    assert histogram.mean_ms == pytest.approx(sum(durations_ms) / len(durations_ms))
    for percent in (0, 1, 10, 25, 50, 75, 90, 99, 99.9, 100):
        truth_ms = _percentile(durations_ms, percent)
        assert truth_ms <= histogram.percentile_ms(percent) <= truth_ms * 1.125, percent
    assert histogram.percentile_ms(100) == histogram.max_ms
