"""The numbers of purgatories, timers and Kafka clusters, for Prometheus and OpenTelemetry.

    collector = metrics.Collector(purgatory, timer, cluster, durable_purgatory)
    collector.register()         # Prometheus reads them at every scrape
    collector.observe()          # OpenTelemetry reads them at every collection

Both exports are made from one table, `_NUMBERS`:

    field of the metrics    Prometheus                            OpenTelemetry
    delayed    (gauge)      sojourn_purgatory_delayed             sojourn.purgatory.delayed
    expired    (counter)    sojourn_purgatory_expired_total       sojourn.purgatory.expired
    lateness   (histogram)  sojourn_purgatory_lateness_seconds    sojourn.purgatory.lateness.bucket,
                                                                  .count and .sum

A histogram of ours has eight buckets to a doubling (histogram.py). What is exported has one, so
that every `le` is the largest duration of a bucket, and every cumulative count is exact:

    us   .. 448 480 | 512 576 .. 896 960 | 1024 1152 .. 1792 1920 | 2048 ..
    le     0.000511 ^           0.001023 ^               0.002047 ^

Neither package is imported before it is needed, so either can be missing.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import sojourn.aio
from sojourn.core.histogram import Histogram
from sojourn.core.purgatory import Purgatory
from sojourn.core.timer import Timer
from sojourn.errors import OutOfRange, WrongType

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    import sojourn.durable
    from sojourn.core.histogram import HistogramSnapshot
    from sojourn.durable.answers import News
    from sojourn.kafka import Cluster

    Source: TypeAlias = (
        "Purgatory | Timer | sojourn.aio.Purgatory | sojourn.aio.Timer | Cluster"
        " | sojourn.durable.Purgatory | Served"
    )

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
        self._sources: dict[tuple[_Kind, str], weakref.ref[Any]] = {}  # replaced, never changed
        self._counts: dict[int, _DurableCounts] = {}  # by the id() of a durable purgatory
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
                self._counts[id(source)] = counts or _DurableCounts(source)
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
        prometheus = _prometheus()
        registry = prometheus.REGISTRY if registry is None else registry
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
        api = _opentelemetry()
        meter = api.get_meter("sojourn") if meter is None else meter
        for number in _NUMBERS:
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
        prometheus = _prometheus()
        registry = prometheus.CollectorRegistry()
        registry.register(self)
        return prometheus.generate_latest(registry)  # type: ignore[no-any-return]

    # What a Prometheus registry calls.

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family that has samples, with the numbers of this moment."""
        readings = list(self._read("purgatory", "timer", "durable", "service"))
        for number in _NUMBERS:
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
        for number in _NUMBERS:
            yield number.family([])

    def __repr__(self) -> str:
        names = ", ".join(f"{kind} {name!r}" for (kind, name), _ in self._living())
        return f"<Collector of {names or 'nothing'}>"

    def _is_taken(self, key: tuple[_Kind, str], source: object) -> bool:
        """Whether another source is exported under this kind and name."""
        return any(other is not source for its_key, other in self._living() if its_key == key)

    def _living(self) -> Iterator[tuple[tuple[_Kind, str], Any]]:
        for key, ref in self._sources.items():
            source = ref()
            if source is not None:
                yield key, source

    def _read(self, *kinds: _Kind) -> Iterator[_Reading]:
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
                    yield _Reading(of, labels, self._metrics(member))

    def _metrics(self, source: Any) -> Any:
        if isinstance(source, _PURGATORIES):
            return source.metrics()
        if isinstance(source, _TIMERS):
            return _TimerMetrics(len(source), source.errors)
        counts = self._counts.get(id(source))
        return source.metrics() if counts is None else counts.read(source)

    def _observer(
        self, number: _Number, part: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        """What an OpenTelemetry instrument calls for its values."""
        observation = _opentelemetry().Observation

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


_Kind = Literal["purgatory", "timer", "cluster", "durable", "service"]
_OWN_NAMES = {"cluster": "id", "durable": "path"}  # where the name is; else in `name`

Labelled = list[tuple[dict[str, str], Any]]  #: the values of one number, with more labels


class _Reading(NamedTuple):
    """The numbers of one purgatory or timer."""

    of: _Kind
    labels: dict[str, str]
    metrics: Any


@dataclass(frozen=True)
class _Number:
    """A number that is exported; `field` is its name in the metrics of a purgatory or timer."""

    of: _Kind
    field: str
    kind: Literal["gauge", "counter", "histogram"]
    unit: str  # as OpenTelemetry writes it
    help: str
    powers: range = range(0)  # of two: where the buckets end, in microseconds

    @property
    def parts(self) -> tuple[str, ...]:
        """The OpenTelemetry instruments that it needs, by their suffix."""
        return (".bucket", ".count", ".sum") if self.kind == "histogram" else ("",)

    def family(self, labels: list[str]) -> Any:
        """The Prometheus metric family, without samples."""
        core = _prometheus().core
        family = {
            "gauge": core.GaugeMetricFamily,
            "counter": core.CounterMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }[self.kind]
        unit = {"s": "seconds", "By": "bytes"}.get(self.unit, "")
        return family(f"sojourn_{self.of}_{self.field}", self.help, labels=labels, unit=unit)

    def values(self, readings: Iterable[_Reading]) -> Iterator[tuple[dict[str, str], Any]]:
        """The labels and the value in each reading of its kind."""
        for of, labels, metrics in readings:
            if of == self.of:
                value = getattr(metrics, self.field)
                if isinstance(value, list):
                    for more, each in value:
                        yield labels | more, each
                else:
                    yield labels, value

    def buckets(self, histogram: HistogramSnapshot) -> list[tuple[str, int]]:
        """The `le` of each bucket, in seconds, and how many durations did not exceed it."""
        buckets = []
        cumulative, begin = 0, 0
        for power in self.powers:
            end = 8 * power - 16  # where our buckets from 2**power us up begin
            cumulative += sum(histogram.counts[begin:end])
            begin = end
            buckets.append((repr((2**power - 1) / 1_000_000), cumulative))
        return [*buckets, ("+Inf", cumulative + sum(histogram.counts[begin:]))]


_NUMBERS = (
    _Number(
        "purgatory",
        "watched",
        "gauge",
        "{entry}",
        "Entries in all watch lists; an operation on three keys has three.",
    ),
    _Number("purgatory", "delayed", "gauge", "{operation}", "Operations waiting now."),
    _Number("purgatory", "known_keys", "gauge", "{key}", "Keys whose progress is kept."),
    _Number(
        "purgatory", "completed", "counter", "{operation}", "Operations that completed in time."
    ),
    _Number("purgatory", "expired", "counter", "{operation}", "Operations whose time ran out."),
    _Number("purgatory", "cancelled", "counter", "{operation}", "Operations that were cancelled."),
    _Number(
        "purgatory",
        "refused",
        "counter",
        "{operation}",
        "Operations refused because max_waiting operations waited.",
    ),
    _Number(
        "purgatory",
        "missed_signals",
        "counter",
        "{operation}",
        "Operations that the audit completed: their condition held and no signal came.",
    ),
    _Number(
        "purgatory",
        "expired_holding",
        "counter",
        "{operation}",
        "Operations that expired although their condition held.",
    ),
    _Number("purgatory", "errors", "counter", "{error}", "Callbacks of operations that raised."),
    _Number(
        "purgatory",
        "lateness",
        "histogram",
        "s",
        "Time from an operation's deadline until its expiry ran.",
        range(6, 25),  # 63 us to 17 s
    ),
    _Number(
        "purgatory",
        "waiting",
        "histogram",
        "s",
        "Time from an operation's submission until it completed or expired.",
        range(10, 38),  # 1 ms to 38 h
    ),
    _Number("timer", "waiting", "gauge", "{task}", "Tasks waiting now."),
    _Number("timer", "errors", "counter", "{error}", "Tasks that raised."),
    _Number("durable", "waiting", "gauge", "{operation}", "Operations waiting now."),
    _Number("durable", "file", "gauge", "By", "Size of the file, with its log."),
    _Number("durable", "submissions", "counter", "{operation}", "Operations that were accepted."),
    _Number("durable", "signals", "counter", "{signal}", "Signals that moved their key."),
    _Number("durable", "commands", "counter", "{command}", "Commands that were asked for."),
    _Number("durable", "outcomes", "counter", "{operation}", "Operations that ended, by status."),
    _Number(
        "durable",
        "commit",
        "histogram",
        "s",
        "Time to put a batch on disk.",
        range(6, 25),  # 63 us to 17 s
    ),
    _Number(
        "durable",
        "lateness",
        "histogram",
        "s",
        "Time from an operation's deadline until its expiry was on disk.",
        range(10, 25),  # 1 ms to 17 s
    ),
    _Number(
        "durable",
        "waited",
        "histogram",
        "s",
        "Time from an operation's submission until it ended.",
        range(10, 38),  # 1 ms to 38 h
    ),
    _Number(
        "durable", "lag", "gauge", "{outcome}", "Outcomes that a subscription has not committed."
    ),
    _Number(
        "durable",
        "journal_lag",
        "gauge",
        "{batch}",
        "Batches that the journal keeps for a reader, for instance the history.",
    ),
    _Number("service", "requests", "counter", "{request}", "Requests by route and status."),
    _Number(
        "service",
        "request",
        "histogram",
        "s",
        "Time to answer a request, without the wait that it asked for in long polls and streams.",
        range(6, 25),  # 63 us to 17 s
    ),
    _Number("service", "connections", "gauge", "{connection}", "Connections that are open."),
    _Number("service", "waiters", "gauge", "{request}", "Requests in a long poll now."),
    _Number("service", "streams", "gauge", "{stream}", "Event streams that are open."),
    _Number(
        "service", "webhook_outcomes", "counter", "{outcome}", "Outcomes that webhooks have taken."
    ),
    _Number(
        "service", "webhook_failures", "counter", "{request}", "POSTs that a webhook did not take."
    ),
)


class _TimerMetrics(NamedTuple):
    waiting: int
    errors: int


class ServiceMetrics(NamedTuple):
    """What a service tells of itself; see `Served`."""

    requests: Labelled
    request: Labelled
    connections: int
    waiters: int
    streams: int
    webhook_outcomes: Labelled
    webhook_failures: Labelled


class Served(Protocol):
    """A source of a service's numbers."""

    name: str

    def metrics(self) -> ServiceMetrics: ...


class _DurableMetrics(NamedTuple):
    waiting: int
    file: int
    submissions: int
    signals: int
    commands: int
    outcomes: Labelled
    commit: HistogramSnapshot
    lateness: HistogramSnapshot
    waited: HistogramSnapshot
    lag: Labelled
    journal_lag: Labelled


class _DurableCounts:
    """What a durable purgatory has done since it was added."""

    def __init__(self, purgatory: Any) -> None:
        self._submissions = self._signals = self._commands = 0
        self._outcomes = Counter({"completed": 0, "expired": 0, "cancelled": 0})
        self._commit = Histogram()
        self._lateness = Histogram()
        self._waited = Histogram()
        self.stop: Callable[[], None] = purgatory.listen(self._on_news)

    def _on_news(self, news: News) -> None:
        """On the writer's thread, the only one that records."""
        self._submissions += news.submissions
        self._signals += news.signals
        self._commands += news.commands
        self._commit.record(int(news.commit_ms * 1000))
        if news.outcomes:
            waited, lateness = self._waited.record, self._lateness.record
            for outcome in news.outcomes:
                status, at_ms = outcome.status, outcome.at_ms or 0
                self._outcomes[status] += 1
                waited((at_ms - outcome.submitted_ms) * 1000)
                if status == "expired":
                    lateness((news.time_ms - at_ms) * 1000)

    def read(self, purgatory: Any) -> _DurableMetrics:
        last = purgatory.last_outcome
        return _DurableMetrics(
            len(purgatory),
            purgatory.file_bytes,
            self._submissions,
            self._signals,
            self._commands,
            [({"status": status}, count) for status, count in self._outcomes.items()],
            self._commit.snapshot(),
            self._lateness.snapshot(),
            self._waited.snapshot(),
            [
                ({"subscription": name}, last - position)
                for name, position in purgatory.subscriptions().items()
            ],
            [
                ({"reader": name}, purgatory.last_batch - batch)
                for name, batch in purgatory.journal_readers().items()
            ],
        )


def _kind(source: object) -> _Kind:
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


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise ImportError(
            "Collector.register needs prometheus-client, which is not installed; "
            "pip install sojourn[metrics]",
            name=error.name,
        ) from error
    return prometheus_client


def _opentelemetry() -> Any:
    try:
        import opentelemetry.metrics
    except ImportError as error:
        raise ImportError(
            "Collector.observe needs opentelemetry-api, which is not installed; "
            "pip install opentelemetry-api",
            name=error.name,
        ) from error
    return opentelemetry.metrics
