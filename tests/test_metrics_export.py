"""What `sojourn.metrics` exports, read back by Prometheus' and OpenTelemetry's own packages."""

from __future__ import annotations

import asyncio
import gc
import math
import random
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sojourn import DelayedOperation, ManualClock, Purgatory, SojournError, Timer, aio, durable
from sojourn.core.histogram import Histogram
from sojourn.errors import Full, OutOfRange, WrongType
from sojourn.metrics import Collector, ServiceMetrics
from tests.checkout import ROOT
from tests.core.test_metrics import FineClock, purgatory_that_waited

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from sojourn.kafka import Cluster
    from tests.conftest import FreshPython

PAGE = ROOT / "docs" / "metrics.md"

Labels = frozenset[tuple[str, str]]
Series = dict[tuple[str, Labels], float]


class Flagged(DelayedOperation):
    flag = False

    def try_complete(self) -> bool:
        return self.flag and self.force_complete()


class Raises(DelayedOperation):
    def on_complete(self) -> None:
        raise ValueError("mine")


def scrape(collector: Collector) -> dict[str, Metric]:
    """The families as the parser of the text format reads them."""
    registry = CollectorRegistry()
    collector.register(registry)
    text = generate_latest(registry).decode()
    return {family.name: family for family in parse_text(text)}


def scrape_openmetrics(collector: Collector) -> dict[str, Metric]:
    """The same through OpenMetrics, whose parser is the stricter one."""
    registry = CollectorRegistry()
    collector.register(registry)
    text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    return {family.name: family for family in families}


def series(families: Iterable[Metric]) -> Series:
    """Every sample by its name and labels, each of which must be there once."""
    found: Series = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"twice: {key}"
            found[key] = sample.value
    return found


def value(collector: Collector, name: str, **labels: str) -> float:
    return series(scrape(collector).values())[name, frozenset(labels.items())]


def names(collector: Collector, label: str) -> set[str]:
    """The values of a label in everything that is exported."""
    exported = series(scrape(collector).values())
    return {dict(labels)[label] for _, labels in exported if label in dict(labels)}


def histogram(families: dict[str, Metric], name: str) -> tuple[list[tuple[float, float]], Any, Any]:
    """A histogram's (le, cumulative count) pairs in the order they came, its count and its sum."""
    samples = families[name].samples
    buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name == f"{name}_bucket"]
    (count,) = [s.value for s in samples if s.name == f"{name}_count"]
    (total,) = [s.value for s in samples if s.name == f"{name}_sum"]
    return buckets, count, total


@pytest.fixture
def purgatory(manual_clock: ManualClock, quiet_log: None) -> Iterator[Purgatory]:
    """Two completed, four expired, one of which raised, four cancelled, one waits on two keys."""
    with Purgatory("orders", clock=manual_clock) as purgatory:
        for _ in range(2):
            operation = DelayedOperation(10)
            purgatory.try_complete_else_watch(operation, ["a"])
            operation.force_complete()
        for _ in range(3):
            purgatory.try_complete_else_watch(DelayedOperation(10), ["b"])
        purgatory.try_complete_else_watch(Raises(10), ["c"])
        for _ in range(4):
            purgatory.try_complete_else_watch(DelayedOperation(10), ["d"])
        purgatory.cancel_for_key("d")
        purgatory.try_complete_else_watch(DelayedOperation(60_000), ["e", "f"])
        manual_clock.advance(10)
        yield purgatory


# Prometheus: the numbers.


def test_every_number_of_a_purgatory_is_exported(purgatory: Purgatory) -> None:
    exported = series(scrape(Collector(purgatory)).values())
    labels = frozenset({("purgatory", "orders")})
    assert {
        name: value for (name, its), value in exported.items() if its == labels
    } == {
        "sojourn_purgatory_watched": 2,
        "sojourn_purgatory_delayed": 1,
        "sojourn_purgatory_completed_total": 2,
        "sojourn_purgatory_expired_total": 4,
        "sojourn_purgatory_cancelled_total": 4,
        "sojourn_purgatory_known_keys": 0,
        "sojourn_purgatory_refused_total": 0,
        "sojourn_purgatory_missed_signals_total": 0,
        "sojourn_purgatory_expired_holding_total": 0,
        "sojourn_purgatory_errors_total": 1,
        "sojourn_purgatory_lateness_seconds_count": 4,
        "sojourn_purgatory_lateness_seconds_sum": 0,
        "sojourn_purgatory_waiting_seconds_count": 6,
        "sojourn_purgatory_waiting_seconds_sum": 0.04,
    }  # fmt: skip


def test_every_number_of_a_timer_is_exported(manual_clock: ManualClock, quiet_log: None) -> None:
    timer = Timer(manual_clock, name="heartbeats")
    timer.call_later(5, lambda: 1 / 0)
    timer.call_later(50, print)
    timer.call_later(60, print)
    manual_clock.advance(5)
    collector = Collector(timer)
    assert value(collector, "sojourn_timer_waiting", timer="heartbeats") == 2
    assert value(collector, "sojourn_timer_errors_total", timer="heartbeats") == 1


def test_a_scrape_reads_the_numbers_of_its_moment(purgatory: Purgatory) -> None:
    collector = Collector(purgatory)
    assert value(collector, "sojourn_purgatory_delayed", purgatory="orders") == 1
    purgatory.cancel_for_key("e")
    assert value(collector, "sojourn_purgatory_delayed", purgatory="orders") == 0
    assert value(collector, "sojourn_purgatory_cancelled_total", purgatory="orders") == 5


def test_a_purgatory_of_an_event_loop_is_exported_too() -> None:
    async def main() -> None:
        async with aio.Purgatory("loop") as purgatory:
            assert await purgatory.wait(lambda: False, keys=["a"], timeout=0.001) is False
            collector = Collector(purgatory, purgatory.timer)
            assert value(collector, "sojourn_purgatory_expired_total", purgatory="loop") == 1
            assert value(collector, "sojourn_timer_waiting", timer="loop") == 0

    asyncio.run(main())


@pytest.mark.kafka_cluster(brokers=1)
def test_a_cluster_is_its_timer_and_its_purgatories(kafka_cluster: Cluster) -> None:
    apart = Purgatory("produce", clock=ManualClock())  # named like one of the cluster's
    collector = Collector(apart, kafka_cluster)
    exported = scrape(collector)["sojourn_purgatory_delayed"].samples
    of_cluster = [s.labels for s in exported if s.labels["cluster"]]
    assert of_cluster == [
        {"cluster": kafka_cluster.id, "purgatory": purgatory.name}
        for purgatory in kafka_cluster.purgatories
    ]
    assert [s.labels for s in exported if not s.labels["cluster"]] == [
        {"cluster": "", "purgatory": "produce"}  # to Prometheus no label at all
    ]
    waiting = value(collector, "sojourn_timer_waiting", cluster=kafka_cluster.id, timer="kafka")
    assert waiting == len(kafka_cluster.timer)
    collector.add(kafka_cluster, name="test")
    assert names(collector, "cluster") == {"", "test"}


def test_refusals_and_what_the_audit_found_are_exported(manual_clock: ManualClock) -> None:
    purgatory = Purgatory("orders", clock=manual_clock, max_waiting=1, audit_every_ms=100)
    collector = Collector(purgatory)
    operation = Flagged(1_000)
    purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(Full):
        purgatory.try_complete_else_watch(Flagged(1_000), ["a"])
    assert value(collector, "sojourn_purgatory_refused_total", purgatory="orders") == 1
    operation.flag = True  # and nobody signals
    manual_clock.advance(100)
    assert value(collector, "sojourn_purgatory_missed_signals_total", purgatory="orders") == 1
    late = Flagged(50)
    purgatory.try_complete_else_watch(late, ["a"])
    late.flag = True
    manual_clock.advance(50)
    assert value(collector, "sojourn_purgatory_expired_holding_total", purgatory="orders") == 1


# Prometheus: its conventions.


def test_both_parsers_read_the_same(purgatory: Purgatory) -> None:
    collector = Collector(purgatory, purgatory.timer)
    assert series(scrape(collector).values()) == series(scrape_openmetrics(collector).values())


def test_names_and_units_follow_the_conventions(purgatory: Purgatory) -> None:
    families = scrape_openmetrics(Collector(purgatory, purgatory.timer))
    assert len(families) >= 10
    for name, family in families.items():
        assert re.fullmatch(r"sojourn_(purgatory|timer)_[a-z_]+", name)
        assert re.fullmatch(r"[A-Z].+\.", family.documentation), name
        suffixes = {sample.name.removeprefix(name) for sample in family.samples}
        if family.type == "counter":
            assert suffixes == {"_total"}
        elif family.type == "gauge":
            assert suffixes == {""}
            assert not name.endswith(("_total", "_count", "_sum", "_bucket"))
        else:
            assert family.type == "histogram"
            assert suffixes == {"_bucket", "_count", "_sum"}
        # Base units only, and the unit ends the name.
        assert family.unit == ("seconds" if family.type == "histogram" else "")
        assert name.endswith(family.unit)


class Served:
    """What a service tells of itself."""

    name = "service"

    def metrics(self) -> ServiceMetrics:
        elapsed = Histogram()
        elapsed.record(700)
        route = {"route": "/v1/signals"}
        return ServiceMetrics(
            requests=[(route | {"method": "POST", "status": "201"}, 3)],
            request=[(route, elapsed.snapshot())],
            connections=2,
            waiters=1,
            streams=0,
            webhook_outcomes=[({"subscription": "mail"}, 5)],
            webhook_failures=[({"subscription": "mail"}, 1)],
        )


def test_every_family_of_the_description_is_a_family_of_the_scrape(tmp_path: Path) -> None:
    purgatory = Purgatory("orders", clock=ManualClock())
    served = Served()
    with durable.Purgatory(tmp_path / "waits.db", clock=ManualClock()) as waits:
        waits.signal("k", 1)
        waits.submit("a", [("k", 1)], 10)
        waits.subscription("mail").commit(0)
        waits.keep_journal("history", 1)
        collector = Collector(purgatory, purgatory.timer, waits, served)
        described = [(f.name, f.type, f.documentation, f.unit) for f in collector.describe()]
        collected = [(f.name, f.type, f.documentation, f.unit) for f in collector.collect()]
        assert described == collected


def test_a_durable_purgatory_is_counted_from_when_it_is_added(tmp_path: Path) -> None:
    clock = ManualClock()
    with durable.Purgatory(tmp_path / "waits.db", clock=clock) as waits:
        waits.submit("before", [("k", 9)], 10)
        collector = Collector()
        collector.add(waits, "waits")
        waits.submit("a", [("k", 1)], 600)
        waits.submit("b", [("k", 2)], 20)
        waits.submit("c", [("k", 2)], 600)
        waits.signal("k", 1)
        waits.cancel("c")
        clock.advance(100)
        mail = waits.subscription("mail")
        mail.commit(1)
        found = series(scrape(collector).values())

        def value(name: str, **labels: str) -> float:
            return found[
                f"sojourn_durable_{name}", frozenset({"durable": "waits", **labels}.items())
            ]

        assert value("waiting") == 0
        assert value("submissions_total") == 3
        assert value("signals_total") == 1
        ends = {s: value("outcomes_total", status=s) for s in ("completed", "expired", "cancelled")}
        assert ends == {"completed": 1, "expired": 2, "cancelled": 1}
        assert value("waited_seconds_count") == 4
        assert value("lateness_seconds_count") == 2
        assert value("lag", subscription="mail") == 3
        assert value("file_bytes") == waits.file_bytes > 0
        assert value("commit_seconds_count") >= 5
        collector.remove(waits)
        assert scrape(collector) == {}


def test_a_service_tells_its_requests_by_route(tmp_path: Path) -> None:
    served = Served()
    found = series(scrape(Collector(served)).values())
    labels = {"service": "service", "route": "/v1/signals"}
    counted = frozenset({**labels, "method": "POST", "status": "201"}.items())
    assert found["sojourn_service_requests_total", counted] == 3
    assert found["sojourn_service_request_seconds_sum", frozenset(labels.items())] == 0.0007
    assert b"sojourn_service_connections" in Collector(served).text()


def test_a_scrape_may_ask_for_some_names_only(purgatory: Purgatory) -> None:
    registry = CollectorRegistry()
    Collector(purgatory).register(registry)
    only = registry.restricted_registry(["sojourn_purgatory_expired_total"])
    assert series(only.collect()) == {
        ("sojourn_purgatory_expired_total", frozenset({("purgatory", "orders")})): 4
    }


def test_nothing_to_export_is_an_empty_page_and_no_error() -> None:
    assert scrape(Collector()) == {}
    assert scrape_openmetrics(Collector()) == {}


@pytest.mark.parametrize("seed", range(5))
def test_counters_and_buckets_never_go_back(seed: int) -> None:
    rng = random.Random(seed)
    clock = ManualClock()
    purgatory = Purgatory("orders", clock=clock)
    collector = Collector(purgatory)
    waiting: list[DelayedOperation] = []
    before: Series = {}
    for _ in range(60):
        for _ in range(rng.randrange(5)):
            operation = DelayedOperation(rng.choice((0, 1, 30, 4_000)))
            waiting.append(operation)
            purgatory.try_complete_else_watch(operation, ["a", rng.randrange(5)])
        rng.choice((waiting or [DelayedOperation(1)])[-3:]).force_complete()
        if rng.random() < 0.1:
            purgatory.cancel_for_key(rng.randrange(5))
        clock.advance(rng.choice((0, 1, 7, 900)))
        families = scrape(collector)
        now = series(f for f in families.values() if f.type != "gauge")
        assert now.keys() >= before.keys()
        assert [key for key in before if now[key] < before[key]] == []
        before = now
    purgatory.close()


# Prometheus: histograms.


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
    purgatory = purgatory_that_waited(durations_us)
    families = scrape(Collector(purgatory))
    buckets, count, total = histogram(families, "sojourn_purgatory_waiting_seconds")
    assert len(buckets) > 20
    for le, cumulative in buckets:
        assert cumulative == sum(us / 1e6 <= le for us in durations_us), le
    assert count == len(durations_us)
    assert total == sum(durations_us) / 1e6


@pytest.mark.parametrize("seed", range(5))
def test_counts_and_sums_of_random_durations_are_exact(seed: int) -> None:
    rng = random.Random(seed)
    durations_us = [int(10 ** rng.uniform(0, 11)) for _ in range(rng.randrange(1, 2_000))]
    purgatory = purgatory_that_waited(durations_us)
    families = scrape(Collector(purgatory))
    buckets, count, total = histogram(families, "sojourn_purgatory_waiting_seconds")
    for le, cumulative in buckets:
        assert cumulative == sum(us / 1e6 <= le for us in durations_us), le
    assert (count, total) == (len(durations_us), sum(durations_us) / 1e6)


# Names, and which sources there are.


def test_two_purgatories_of_one_name_are_refused() -> None:
    first, second = (Purgatory("orders", clock=ManualClock()) for _ in range(2))
    collector = Collector(first)
    with pytest.raises(OutOfRange, match=r"a purgatory named 'orders' is exported already; give"):
        collector.add(second)
    with pytest.raises(OutOfRange, match="'orders'"):
        Collector(first, second)
    collector.add(second, name="orders-2")
    assert names(collector, "purgatory") == {"orders", "orders-2"}
    collector.add(first.timer)  # a timer may be named like a purgatory
    with pytest.raises(OutOfRange, match="a timer named 'orders'"):
        collector.add(second.timer)


def test_a_refused_source_changes_nothing() -> None:
    first, second = Purgatory("a", clock=ManualClock()), Purgatory("b", clock=ManualClock())
    collector = Collector(first, second)
    with pytest.raises(OutOfRange, match="'a'"):
        collector.add(second, name="a")
    assert names(collector, "purgatory") == {"a", "b"}


def test_a_source_given_twice_is_exported_once() -> None:
    purgatory = Purgatory("orders", clock=ManualClock())
    collector = Collector(purgatory, purgatory)
    collector.add(purgatory)
    assert names(collector, "purgatory") == {"orders"}
    collector.add(purgatory, name="renamed")
    assert names(collector, "purgatory") == {"renamed"}


def test_a_removed_source_is_gone_and_its_name_is_free() -> None:
    first, second = (Purgatory("orders", clock=ManualClock()) for _ in range(2))
    collector = Collector(first)
    collector.remove(first)
    collector.remove(first)  # as often as you like
    assert scrape(collector) == {}
    collector.add(second)
    assert names(collector, "purgatory") == {"orders"}


def test_a_purgatory_that_nobody_holds_vanishes() -> None:
    kept = Purgatory("kept", clock=ManualClock())
    dropped = Purgatory("dropped", clock=ManualClock())
    collector = Collector(kept, dropped)
    assert names(collector, "purgatory") == {"kept", "dropped"}
    dropped.close()
    del dropped
    gc.collect()
    assert names(collector, "purgatory") == {"kept"}
    assert repr(collector) == "<Collector of purgatory 'kept'>"


def test_the_name_of_a_purgatory_that_nobody_holds_is_free_at_once() -> None:
    class Knot(Purgatory):
        itself: Knot

    gc.disable()
    try:
        dropped = Knot("orders", clock=ManualClock())
        dropped.itself = dropped  # only the garbage collector finds this out
        collector = Collector(dropped)
        del dropped
        second = Purgatory("orders", clock=ManualClock())
        collector.add(second)
    finally:
        gc.enable()
    assert names(collector, "purgatory") == {"orders"}


def test_a_closed_purgatory_keeps_its_last_numbers(purgatory: Purgatory) -> None:
    collector = Collector(purgatory)
    purgatory.close()
    assert value(collector, "sojourn_purgatory_expired_total", purgatory="orders") == 4
    assert value(collector, "sojourn_purgatory_delayed", purgatory="orders") == 0


@pytest.mark.parametrize("name", ['"', "\\", "a\nb", "é ≤ 時", "{}", "a=b,c", " "])
def test_any_name_comes_through_as_it_is(name: str) -> None:
    purgatory = Purgatory(name, clock=ManualClock())
    collector = Collector(purgatory)
    assert names(collector, "purgatory") == {name}
    exported = scrape_openmetrics(collector)["sojourn_purgatory_delayed"].samples
    assert [sample.labels for sample in exported] == [{"purgatory": name}]


def test_a_name_that_would_break_the_page_is_refused() -> None:
    purgatory = Purgatory("\udc80", clock=ManualClock())
    with pytest.raises(OutOfRange, match=r"name must be text that UTF-8 can write, got '\\udc80'"):
        Collector(purgatory)
    with pytest.raises(OutOfRange, match="name must not be empty"):
        Collector().add(purgatory, name="")
    with pytest.raises(WrongType, match="name must be a string, got 7"):
        Collector().add(purgatory, name=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [None, "orders", Purgatory, [], 1])
def test_what_has_no_numbers_is_refused(source: Any) -> None:
    with pytest.raises(WrongType, match=r"a source must be a Purgatory, a Timer, a kafka\.Cl"):
        Collector(source)


def test_a_registry_takes_one_collector(purgatory: Purgatory) -> None:
    registry = CollectorRegistry()
    collector = Collector(purgatory)
    collector.register(registry)
    with pytest.raises(OutOfRange, match="takes one Collector, add") as refused:
        Collector().register(registry)
    assert isinstance(refused.value, SojournError)
    registry.unregister(collector)
    Collector().register(registry)


# Reading disturbs nobody.


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


# The packages.


def test_the_default_registry_and_meter_are_those_of_the_packages(
    fresh_python: FreshPython,
) -> None:
    ran = fresh_python("""
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import REGISTRY
from sojourn import Purgatory
from sojourn.core.histogram import Histogram
from sojourn.metrics import Collector, ServiceMetrics

reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader]))
purgatory = Purgatory("orders")
Collector(purgatory).register()
Collector(purgatory).observe()
print(REGISTRY.get_sample_value("sojourn_purgatory_delayed", {"purgatory": "orders"}))
print(reader.get_metrics_data().resource_metrics[0].scope_metrics[0].scope.name)
""")
    assert ran.stdout.split() == ["0", "sojourn"], ran.stderr


@pytest.mark.parametrize(
    ("package", "verb", "remedy"),
    [
        ("prometheus_client", "register", "prometheus-client.*pip install sojourn.metrics."),
        ("prometheus_client", "collect().__next__", "pip install sojourn.metrics."),
        ("opentelemetry", "observe", "opentelemetry-api.*pip install opentelemetry-api"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(
    fresh_python: FreshPython, package: str, verb: str, remedy: str
) -> None:
    ran = fresh_python(f"""
import sys
sys.modules["{package}"] = None
from sojourn import Purgatory
from sojourn.core.histogram import Histogram
from sojourn.metrics import Collector, ServiceMetrics

purgatory = Purgatory()
Collector(purgatory).{verb}()
""")
    assert ran.returncode == 1
    assert re.search(f"ImportError: .*{remedy}", ran.stderr), ran.stderr


def test_neither_package_is_imported_before_it_is_needed(fresh_python: FreshPython) -> None:
    ran = fresh_python("""
import sys
import sojourn, sojourn.metrics
sojourn.metrics.Collector(sojourn.Purgatory())
print([m for m in ("prometheus_client", "opentelemetry", "sojourn.kafka") if m in sys.modules])
""")
    assert ran.stdout.strip() == "[]", ran.stderr


# OpenTelemetry.


class Observed:
    """What an OpenTelemetry reader gets from a collector."""

    def __init__(self, collector: Collector) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        collector.observe(self._provider.get_meter("test"))

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def series(self) -> Series:
        found: Series = {}
        for name, metric in self.metrics().items():
            for point in metric.data.data_points:
                key = name, frozenset(dict(point.attributes).items())
                assert key not in found, f"twice: {key}"
                found[key] = point.value
        return found

    def close(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def observe() -> Iterator[Callable[[Collector], Observed]]:
    """Observes a collector until the test ends."""
    opened: list[Observed] = []

    def observe(collector: Collector) -> Observed:
        opened.append(Observed(collector))
        return opened[-1]

    yield observe
    for observed in opened:
        observed.close()


def test_opentelemetry_gets_the_same_numbers_as_prometheus(
    purgatory: Purgatory, observe: Callable[[Collector], Observed]
) -> None:
    collector = Collector(purgatory, purgatory.timer)
    observed = observe(collector).series()
    expected: Series = {}
    for (name, labels), number in series(scrape(collector).values()).items():
        otel = name.removesuffix("_total").replace("_seconds_", ".")
        otel = re.sub("^sojourn_(purgatory|timer)_", r"sojourn.\1.", otel)
        expected[otel, labels] = number
    assert observed == expected


def test_opentelemetry_instruments_have_units_and_kinds(
    observe: Callable[[Collector], Observed],
) -> None:
    purgatory = Purgatory("orders", clock=ManualClock())
    metrics = observe(Collector(purgatory, purgatory.timer)).metrics()
    families = scrape(Collector(purgatory, purgatory.timer))
    assert len(metrics) == len(families) + 2 * 2  # two histograms are three instruments each
    by_unit = defaultdict(set)
    for name, metric in metrics.items():
        assert isinstance(metric.data, Sum), name
        assert metric.description, name
        by_unit[metric.unit].add(name)
        is_gauge = (
            name.endswith((".watched", ".delayed", ".known_keys"))
            or name == "sojourn.timer.waiting"
        )
        assert metric.data.is_monotonic == (not is_gauge), name
    assert by_unit["s"] == {"sojourn.purgatory.lateness.sum", "sojourn.purgatory.waiting.sum"}
    assert by_unit["{error}"] == {"sojourn.purgatory.errors", "sojourn.timer.errors"}
    assert by_unit["{entry}"] == {"sojourn.purgatory.watched"}
    assert by_unit["{task}"] == {"sojourn.timer.waiting"}
    assert "" not in by_unit


def test_opentelemetry_sees_sources_come_and_go(
    observe: Callable[[Collector], Observed],
) -> None:
    first, second = Purgatory("a", clock=ManualClock()), Purgatory("b", clock=ManualClock())
    collector = Collector(first)
    observed = observe(collector)
    assert {dict(labels)["purgatory"] for _, labels in observed.series()} == {"a"}
    collector.add(second)
    collector.remove(first)
    assert {dict(labels)["purgatory"] for _, labels in observed.series()} == {"b"}
    del second
    gc.collect()
    assert observed.series() == {}


# The page.


def test_the_page_lists_every_metric_and_no_other() -> None:
    purgatory = Purgatory("orders", clock=ManualClock())
    families = list(Collector(purgatory, purgatory.timer).collect())
    exported = {name for family in families for name in {s.name for s in family.samples}}
    families = list(Collector().describe())
    text = PAGE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(sojourn_\w+)", text, re.MULTILINE))
    assert listed == {
        family.name + ("_total" if family.type == "counter" else "") for family in families
    }
    rules = "\n".join(re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    asked = set(re.findall(r"\bsojourn_(?:purgatory|timer)_\w+", rules))
    assert len(asked) >= 6
    assert asked <= exported
