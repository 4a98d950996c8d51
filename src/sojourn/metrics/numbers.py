"""The numbers that are exported: one table for both exports.

    field of the metrics    Prometheus                            OpenTelemetry
    delayed    (gauge)      sojourn_purgatory_delayed             sojourn.purgatory.delayed
    expired    (counter)    sojourn_purgatory_expired_total       sojourn.purgatory.expired
    lateness   (histogram)  sojourn_purgatory_lateness_seconds    sojourn.purgatory.lateness.bucket,
                                                                  .count and .sum

A histogram of ours has eight buckets to a doubling (histogram.py). What is exported has one, so
that every `le` is the largest duration of a bucket, and every cumulative count is exact:

    us   .. 448 480 | 512 576 .. 896 960 | 1024 1152 .. 1792 1920 | 2048 ..
    le     0.000511 ^           0.001023 ^               0.002047 ^
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from sojourn.metrics.packages import prometheus

if TYPE_CHECKING:
    from sojourn.core.histogram import HistogramSnapshot

Kind = Literal["purgatory", "timer", "cluster", "durable", "service"]
Labelled = list[tuple[dict[str, str], Any]]  #: the values of one number, with more labels


class Reading(NamedTuple):
    """The numbers of one purgatory or timer."""

    of: Kind
    labels: dict[str, str]
    metrics: Any


@dataclass(frozen=True)
class Number:
    """A number that is exported; `field` is its name in the metrics of a purgatory or timer."""

    of: Kind
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
        core = prometheus().core
        family = {
            "gauge": core.GaugeMetricFamily,
            "counter": core.CounterMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }[self.kind]
        unit = {"s": "seconds", "By": "bytes"}.get(self.unit, "")
        return family(f"sojourn_{self.of}_{self.field}", self.help, labels=labels, unit=unit)

    def values(self, readings: Iterable[Reading]) -> Iterator[tuple[dict[str, str], Any]]:
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


def _gauge(of: Kind, field: str, unit: str, help: str) -> Number:
    return Number(of, field, "gauge", unit, help)


def _counter(of: Kind, field: str, unit: str, help: str) -> Number:
    return Number(of, field, "counter", unit, help)


def _histogram(of: Kind, field: str, help: str, powers: range) -> Number:
    return Number(of, field, "histogram", "s", help, powers)


_TO_17_S = range(6, 25)  # from 63 us
_MS_TO_17_S = range(10, 25)  # from 1 ms
_TO_38_H = range(10, 38)  # from 1 ms

NUMBERS = (
    _gauge(
        "purgatory",
        "watched",
        "{entry}",
        "Entries in all watch lists; an operation on three keys has three.",
    ),
    _gauge("purgatory", "delayed", "{operation}", "Operations waiting now."),
    _gauge("purgatory", "known_keys", "{key}", "Keys whose progress is kept."),
    _counter("purgatory", "completed", "{operation}", "Operations that completed in time."),
    _counter("purgatory", "expired", "{operation}", "Operations whose time ran out."),
    _counter("purgatory", "cancelled", "{operation}", "Operations that were cancelled."),
    _counter(
        "purgatory",
        "refused",
        "{operation}",
        "Operations refused because max_waiting operations waited.",
    ),
    _counter(
        "purgatory",
        "missed_signals",
        "{operation}",
        "Operations that the audit completed: their condition held and no signal came.",
    ),
    _counter(
        "purgatory",
        "expired_holding",
        "{operation}",
        "Operations that expired although their condition held.",
    ),
    _counter("purgatory", "errors", "{error}", "Callbacks of operations that raised."),
    _histogram(
        "purgatory", "lateness", "Time from an operation's deadline until its expiry ran.", _TO_17_S
    ),
    _histogram(
        "purgatory",
        "waiting",
        "Time from an operation's submission until it completed or expired.",
        _TO_38_H,
    ),
    _gauge("timer", "waiting", "{task}", "Tasks waiting now."),
    _counter("timer", "errors", "{error}", "Tasks that raised."),
    _gauge("durable", "waiting", "{operation}", "Operations waiting now."),
    _gauge("durable", "file", "By", "Size of the file, with its log."),
    _counter("durable", "submissions", "{operation}", "Operations that were accepted."),
    _counter("durable", "signals", "{signal}", "Signals that moved their key."),
    _counter(
        "durable", "commands", "{command}", "Commands received, also those that changed nothing."
    ),
    _counter("durable", "outcomes", "{operation}", "Operations that ended, by status."),
    _histogram("durable", "commit", "Time to put a batch on disk.", _TO_17_S),
    _histogram(
        "durable",
        "lateness",
        "Time from an operation's deadline until its expiry was on disk.",
        _MS_TO_17_S,
    ),
    _histogram(
        "durable", "waited", "Time from an operation's submission until it ended.", _TO_38_H
    ),
    _gauge("durable", "lag", "{outcome}", "Outcomes that a subscription has not committed."),
    _gauge(
        "durable",
        "journal_lag",
        "{batch}",
        "Batches that the journal keeps for a reader, for instance the history.",
    ),
    _counter("service", "requests", "{request}", "Requests by route and status."),
    _histogram(
        "service",
        "request",
        "Time to answer a request, without the wait that it asked for in long polls and streams.",
        _TO_17_S,
    ),
    _gauge("service", "connections", "{connection}", "Connections that are open."),
    _gauge("service", "waiters", "{request}", "Requests in a long poll now."),
    _gauge("service", "streams", "{stream}", "Event streams that are open."),
    _counter("service", "webhook_outcomes", "{outcome}", "Outcomes that webhooks have accepted."),
    _counter("service", "webhook_failures", "{request}", "POSTs to a webhook that failed."),
)


class TimerMetrics(NamedTuple):
    """The numbers of a timer."""

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
