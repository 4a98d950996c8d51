"""The numbers of a durable purgatory, counted from the news of its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.core.histogram import Histogram
from sojourn.metrics.numbers import Labelled

if TYPE_CHECKING:
    from sojourn.core.histogram import HistogramSnapshot
    from sojourn.durable.answers import News


class DurableMetrics(NamedTuple):
    """The numbers at one moment."""

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


class DurableCounts:
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

    def read(self, purgatory: Any) -> DurableMetrics:
        """The numbers of this moment."""
        last = purgatory.last_outcome
        return DurableMetrics(
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
