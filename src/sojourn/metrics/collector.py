"""The collector: the numbers of purgatories, timers and Kafka clusters, for both exports.

    collector = metrics.Collector(purgatory, timer, cluster, durable_purgatory)
    collector.register()         # Prometheus reads them at every scrape
    collector.observe()          # OpenTelemetry reads them at every collection

Both exports are made from one table (numbers.py). Neither package is imported before it is needed,
so either can be missing.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import sojourn.aio
from sojourn.core.purgatory import Purgatory
from sojourn.core.timer import Timer
from sojourn.errors import OutOfRange, WrongType
from sojourn.metrics.durable import DurableCounts
from sojourn.metrics.numbers import NUMBERS, Kind, Number, Reading, Served, TimerMetrics
from sojourn.metrics.packages import opentelemetry, prometheus

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    import sojourn.durable
    from sojourn.kafka import Cluster

    Source: TypeAlias = (
        "Purgatory | Timer | sojourn.aio.Purgatory | sojourn.aio.Timer | Cluster"
        " | sojourn.durable.Purgatory | Served"
    )

_OWN_NAMES = {"cluster": "id", "durable": "path"}  # where the name is; else in `name`
_PURGATORIES = Purgatory, sojourn.aio.Purgatory
_TIMERS = Timer, sojourn.aio.Timer


class Collector:
    """Exports the numbers of the sources: purgatories, timers, clusters and durable purgatories.

    Sources are held weakly: one that nobody else holds is no longer exported. Each has a name,
    which becomes a label; two of one kind and name are refused. No lock of a source is taken. What
    a durable purgatory does is counted from when it is added. Every method: any thread.
    """

    def __init__(self, *sources: Source) -> None:
        self._lock = threading.RLock()  # held to change the sources; a finaliser may do that too
        self._sources: dict[tuple[Kind, str], weakref.ref[Any]] = {}  # replaced, never changed
        self._counts: dict[int, DurableCounts] = {}  # by the id() of a durable purgatory
        for source in sources:
            self.add(source)

    def add(self, source: Source, name: str | None = None) -> None:
        """Export this source too, under its own name unless another is given.

        A cluster's own name is its id, which is new each time; a durable purgatory's is the path
        of its file. A source that is exported already is renamed.
        """
        kind = _kind(source)
        if name is None:
            name = str(getattr(source, _OWN_NAMES.get(kind, "name")))
        key = kind, _checked_name(name)
        with self._lock:
            if self._is_taken(key, source):
                gc.collect()  # perhaps nobody holds the other any more
            if self._is_taken(key, source):
                raise OutOfRange(
                    f"a {kind} named {name!r} is exported already; give each {kind} a name of its "
                    "own, here with add(…, name=…), or remove() the other first"
                )
            counts = self._counts.pop(id(source), None)
            self.remove(source)
            if kind == "durable":
                self._counts[id(source)] = counts or DurableCounts(source)
            self._sources = {**self._sources, key: weakref.ref(source)}

    def remove(self, source: Source) -> None:
        """Export this source no longer; does nothing if it is not exported."""
        with self._lock:
            self._sources = {
                key: weakref.ref(other) for key, other in self._living() if other is not source
            }
            counts = self._counts.pop(id(source), None)
            if counts is not None:
                counts.stop()

    def register(self, registry: CollectorRegistry | None = None) -> None:
        """Have Prometheus read the numbers: from this registry, or else the default one.

        `registry.unregister(collector)` undoes it. A registry takes one collector of ours: add
        further sources to that. Raises ImportError if prometheus-client is not installed.
        """
        registry = prometheus().REGISTRY if registry is None else registry
        try:
            registry.register(self)
        except ValueError as error:
            raise OutOfRange(
                "this registry has metrics of these names already; a registry takes one "
                "Collector, add() further sources to that"
            ) from error

    def observe(self, meter: Meter | None = None) -> None:
        """Have OpenTelemetry read the numbers: through this meter, or else one named "sojourn".

        Call it once for a meter: instruments cannot be taken back, `remove` the sources instead.
        Raises ImportError if opentelemetry-api is not installed.
        """
        api = opentelemetry()
        meter = api.get_meter("sojourn") if meter is None else meter
        for number in NUMBERS:
            for part in number.parts:
                create = (
                    # Waiting operations of several processes add up, which gauges do not.
                    meter.create_observable_up_down_counter
                    if number.kind == "gauge"
                    else meter.create_observable_counter
                )
                create(
                    f"sojourn.{number.of}.{number.field}{part}",
                    callbacks=[self._observer(number, part)],
                    unit="{operation}" if part in (".bucket", ".count") else number.unit,
                    description=number.help,
                )

    def text(self) -> bytes:
        """The numbers in Prometheus' text format, for a page of your own."""
        package = prometheus()
        registry = package.CollectorRegistry()
        registry.register(self)
        return package.generate_latest(registry)  # type: ignore[no-any-return]

    # What a Prometheus registry calls.

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family that has samples, with the numbers of this moment."""
        readings = list(self._read("purgatory", "timer", "durable", "service"))
        for number in NUMBERS:
            samples = list(number.values(readings))
            if samples:
                # An empty label is the same as none, and the client wants all labels on all.
                names = list(dict.fromkeys(name for labels, _ in samples for name in labels))
                family = number.family(names)
                for labels, value in samples:
                    values = [labels.get(name, "") for name in names]
                    if number.kind == "histogram":
                        family.add_metric(values, number.buckets(value), value.total_us / 1_000_000)
                    else:
                        family.add_metric(values, value)
                yield family

    def describe(self) -> Iterator[Metric]:
        """Yield every metric family, without samples."""
        for number in NUMBERS:
            yield number.family([])

    def __repr__(self) -> str:
        names = ", ".join(f"{kind} {name!r}" for (kind, name), _ in self._living())
        return f"<Collector of {names or 'nothing'}>"

    def _is_taken(self, key: tuple[Kind, str], source: object) -> bool:
        """Whether another source is exported under this kind and name."""
        return any(other is not source for its_key, other in self._living() if its_key == key)

    def _living(self) -> Iterator[tuple[tuple[Kind, str], Any]]:
        for key, ref in self._sources.items():
            source = ref()
            if source is not None:
                yield key, source

    def _read(self, *kinds: Kind) -> Iterator[Reading]:
        """The numbers of every source of these kinds; a cluster is its timer and purgatories."""
        for (kind, name), source in self._living():
            members: list[tuple[Any, dict[str, str]]] = [(source, {kind: name})]
            if kind == "cluster":
                members = [
                    (member, {"cluster": name, _kind(member): member.name})
                    for member in (source.timer, *source.purgatories)
                ]
            for member, labels in members:
                of = _kind(member)
                if of in kinds:
                    yield Reading(of, labels, self._metrics(member))

    def _metrics(self, source: Any) -> Any:
        if isinstance(source, _PURGATORIES):
            return source.metrics()
        if isinstance(source, _TIMERS):
            return TimerMetrics(len(source), source.errors)
        counts = self._counts.get(id(source))
        return source.metrics() if counts is None else counts.read(source)

    def _observer(
        self, number: Number, part: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """What an OpenTelemetry instrument calls for its values."""
        observation = opentelemetry().Observation

        def observe(_: CallbackOptions) -> Iterator[Observation]:
            for labels, value in number.values(self._read(number.of)):
                if part == ".bucket":
                    for le, count in number.buckets(value):
                        yield observation(count, labels | {"le": le})
                elif part == ".count":
                    yield observation(sum(value.counts), labels)
                elif part == ".sum":
                    yield observation(value.total_us / 1_000_000, labels)
                else:
                    yield observation(value, labels)

        return observe


def _kind(source: object) -> Kind:
    if isinstance(source, _PURGATORIES):
        return "purgatory"
    if isinstance(source, _TIMERS):
        return "timer"
    if hasattr(source, "purgatories"):  # importing Cluster to ask would need sojourn[kafka]
        return "cluster"
    if not isinstance(source, type):
        if hasattr(source, "file_bytes"):
            return "durable"
        if hasattr(source, "metrics") and hasattr(source, "name"):
            return "service"
    raise WrongType(
        "a source must be a Purgatory, a Timer, a kafka.Cluster or a durable.Purgatory, "
        f"got {source!r}"
    )


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise WrongType(f"name must be a string, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise OutOfRange(f"name must be text that UTF-8 can write, got {name!r}") from None
    if not name:
        raise OutOfRange("name must not be empty: Prometheus takes an empty label for none")
    return name
