"""Every number of each kind of source is exported."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock, Purgatory, Timer, aio, durable
from sojourn.core.histogram import Histogram
from sojourn.errors import Full
from sojourn.metrics import Collector, ServiceMetrics
from tests.core.flagged import Flagged
from tests.metrics.scrapes import names, scrape, scraped, value

if TYPE_CHECKING:
    from sojourn.kafka import Cluster


def test_every_number_of_a_purgatory_is_exported(purgatory: Purgatory) -> None:
    samples = scraped(Collector(purgatory))
    orders = frozenset({("purgatory", "orders")})
    assert {
        name: value for (name, labels), value in samples.items() if labels == orders
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
    samples = scrape(collector)["sojourn_purgatory_delayed"].samples
    assert [s.labels for s in samples if s.labels["cluster"]] == [
        {"cluster": kafka_cluster.id, "purgatory": purgatory.name}
        for purgatory in kafka_cluster.purgatories
    ]
    assert [s.labels for s in samples if not s.labels["cluster"]] == [
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


class Served:
    """A service, with the numbers that it exports."""

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
        samples = scraped(collector)

        def value(name: str, **labels: str) -> float:
            of = frozenset({"durable": "waits", **labels}.items())
            return samples[f"sojourn_durable_{name}", of]

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


def test_a_service_tells_its_requests_by_route() -> None:
    served = Served()
    samples = scraped(Collector(served))
    labels = {"service": "service", "route": "/v1/signals"}
    counted = frozenset({**labels, "method": "POST", "status": "201"}.items())
    assert samples["sojourn_service_requests_total", counted] == 3
    assert samples["sojourn_service_request_seconds_sum", frozenset(labels.items())] == 0.0007
    assert b"sojourn_service_connections" in Collector(served).text()
