"""A scrape disturbs nobody, and nobody disturbs a scrape."""

from __future__ import annotations

import math
import threading

import pytest

from sojourn import DelayedOperation, ManualClock, Purgatory, Timer
from sojourn.metrics import Collector
from tests.core.fine_clock import FineClock
from tests.metrics.scrapes import Series, histogram, series, value


def test_a_scrape_does_not_wait_for_callbacks() -> None:
    """A callback stands still under its operation's lock; the numbers are read all the same."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(DelayedOperation):
        def try_complete(self) -> bool:
            inside.set()
            return go_on.wait(30)

    with Purgatory("orders") as purgatory:
        collector = Collector(purgatory)
        thread = threading.Thread(target=purgatory.submit, args=(Slow(60_000), ["a"]))
        thread.start()
        try:
            assert inside.wait(30)
            assert value(collector, "sojourn_purgatory_completed_total", purgatory="orders") == 0
            assert not go_on.is_set()
        finally:
            go_on.set()
            thread.join()
        assert value(collector, "sojourn_purgatory_completed_total", purgatory="orders") == 1


@pytest.mark.usefixtures("close_interleaving")
def test_scrapes_beside_a_busy_purgatory_are_never_torn() -> None:
    """Every operation waits a millisecond, so any sum is a whole number of milliseconds."""
    clock = FineClock()
    purgatory = Purgatory("orders", timer=Timer(clock))
    collector = Collector(purgatory)
    finished = threading.Event()

    def work() -> None:
        for _ in range(3_000):
            operation = DelayedOperation(10**9)
            purgatory.try_complete_else_watch(operation, ["a", "b"])
            clock.ns += 1_000_000
            operation.force_complete()
        finished.set()

    thread = threading.Thread(target=work)
    thread.start()
    before: Series = {}
    scrapes = 0
    while not finished.is_set() or not scrapes:
        families = {family.name: family for family in collector.collect()}
        buckets, count, total = histogram(families, "sojourn_purgatory_waiting_seconds")
        assert buckets[-1] == (math.inf, count)
        assert abs(total * 1000 - count) < 1.001  # at most the one that is being counted
        assert total * 1000 == pytest.approx(round(total * 1000), abs=1e-6)
        now = series(f for f in families.values() if f.type != "gauge")
        assert [key for key in before if now[key] < before[key]] == []
        before = now
        scrapes += 1
    thread.join()
    assert value(collector, "sojourn_purgatory_completed_total", purgatory="orders") == 3_000
    assert value(collector, "sojourn_purgatory_waiting_seconds_sum", purgatory="orders") == 3.0


@pytest.mark.usefixtures("close_interleaving")
def test_sources_may_come_and_go_while_scrapes_run() -> None:
    staying = [Timer(ManualClock(), name=f"timer-{n}") for n in range(20)]
    collector = Collector(*staying)
    finished = threading.Event()

    def come_and_go() -> None:
        for n in range(300):
            purgatory = Purgatory(f"orders-{n % 7}", clock=ManualClock())
            collector.add(purgatory, name=f"orders-{n}")
            if n % 2:
                collector.remove(purgatory)
        finished.set()

    thread = threading.Thread(target=come_and_go)
    thread.start()
    while not finished.is_set():
        exported = series(collector.collect())
        assert sum(name == "sojourn_timer_waiting" for name, _ in exported) == 20
    thread.join()
