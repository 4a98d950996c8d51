"""The exported text follows the conventions of Prometheus and OpenMetrics."""

from __future__ import annotations

import random
import re

import pytest
from prometheus_client import CollectorRegistry

from sojourn import DelayedOperation, ManualClock, Purgatory
from sojourn.metrics import Collector
from tests.checkout import ROOT
from tests.metrics.scrapes import Series, scrape, scrape_openmetrics, scraped, series


def test_both_parsers_read_the_same(purgatory: Purgatory) -> None:
    collector = Collector(purgatory, purgatory.timer)
    assert scraped(collector) == series(scrape_openmetrics(collector).values())


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


def test_the_page_lists_every_metric_and_no_other() -> None:
    purgatory = Purgatory("orders", clock=ManualClock())
    exported = {
        sample.name
        for family in Collector(purgatory, purgatory.timer).collect()
        for sample in family.samples
    }
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(sojourn_\w+)", text, re.MULTILINE))
    assert listed == {
        family.name + ("_total" if family.type == "counter" else "")
        for family in Collector().describe()
    }
    rules = "\n".join(re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    asked = set(re.findall(r"\bsojourn_(?:purgatory|timer)_\w+", rules))
    assert len(asked) >= 6
    assert asked <= exported
