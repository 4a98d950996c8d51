"""Which sources a collector has, and the names they are exported by."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sojourn import ManualClock, Purgatory, SojournError
from sojourn.errors import OutOfRange, WrongType
from sojourn.metrics import Collector
from tests.metrics.scrapes import names, scrape, scrape_openmetrics, value


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
