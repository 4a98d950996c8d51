"""What an OpenTelemetry reader gets from a collector."""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

from sojourn import ManualClock, Purgatory
from sojourn.metrics import Collector
from tests.metrics.scrapes import Series, scrape, scraped


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
        values: Series = {}
        for name, metric in self.metrics().items():
            for point in metric.data.data_points:
                key = name, frozenset(dict(point.attributes).items())
                assert key not in values, f"twice: {key}"
                values[key] = point.value
        return values

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
    for (name, labels), number in scraped(collector).items():
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
