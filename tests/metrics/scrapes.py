"""What a collector exports, read back by Prometheus' own parsers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sojourn.metrics import Collector

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = frozenset[tuple[str, str]]
Series = dict[tuple[str, Labels], float]


def _registry(collector: Collector) -> CollectorRegistry:
    registry = CollectorRegistry()
    collector.register(registry)
    return registry


def scrape(collector: Collector) -> dict[str, Metric]:
    """The families as the parser of the text format reads them."""
    text = generate_latest(_registry(collector)).decode()
    return {family.name: family for family in parse_text(text)}


def scrape_openmetrics(collector: Collector) -> dict[str, Metric]:
    """The same through OpenMetrics, whose parser is the stricter one."""
    text = openmetrics.generate_latest(_registry(collector)).decode()  # type: ignore[no-untyped-call]
    families = parse_openmetrics(text)  # type: ignore[no-untyped-call]
    return {family.name: family for family in families}


def series(families: Iterable[Metric]) -> Series:
    """Every sample by its name and labels, each of which must be there once."""
    values: Series = {}
    for family in families:
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in values, f"twice: {key}"
            values[key] = sample.value
    return values


def scraped(collector: Collector) -> Series:
    """Every sample of a scrape."""
    return series(scrape(collector).values())


def value(collector: Collector, name: str, **labels: str) -> float:
    return scraped(collector)[name, frozenset(labels.items())]


def names(collector: Collector, label: str) -> set[str]:
    """The values of a label in everything that is exported."""
    return {dict(labels)[label] for _, labels in scraped(collector) if label in dict(labels)}


def histogram(families: dict[str, Metric], name: str) -> tuple[list[tuple[float, float]], Any, Any]:
    """A histogram's (le, cumulative count) pairs in the order they came, its count and its sum."""
    samples = families[name].samples
    buckets = [(float(s.labels["le"]), s.value) for s in samples if s.name == f"{name}_bucket"]
    (count,) = [s.value for s in samples if s.name == f"{name}_count"]
    (total,) = [s.value for s in samples if s.name == f"{name}_sum"]
    return buckets, count, total
