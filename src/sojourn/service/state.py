"""The state of the service in numbers, as the dashboard shows it: `GET /v1/state`.

    writer's thread   --news-->   rates, durations, classes, samples     counted as it happens
    GET /v1/state     --------->  a copy of these
                      --inspect-> the oldest waits, keys, the wheel      every few seconds, and
                      --thread--> the timeout advisor                    only while somebody asks

Counting is bounded: so many seconds, so many classes, so many operations of a sample. Everything
says over which time it was taken.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sojourn.durable import News, Operation
from sojourn.durable.answers import CANCELLED, COMPLETED, EXPIRED
from sojourn.service import findings
from sojourn.service.advice import INSTALL, ClassAdvice, advise, is_installed
from sojourn.service.classes import STATUSES, ClassCounts, Classes
from sojourn.service.durations import SLICE_MS, SLICES, Durations
from sojourn.service.inspections import Inspections, retrieve_error
from sojourn.service.late import Late
from sojourn.service.rates import STEP_MS, Rates
from sojourn.service.recent import Ended, Recent
from sojourn.service.replies import encode

if TYPE_CHECKING:
    from sojourn.service.service import Service

SHOWN_CLASSES = 20

_ADVISE_AGAIN_S = 10.0
_WRITE_AGAIN_S = 0.5
_FEW_SUBSCRIBERS = 20  # so few are looked at with every batch, more once a second


class State:
    """Counts from its making on, until `close`. `gather` is for one event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        purgatory = service.purgatory
        self._lock = threading.Lock()  # guards the counts, which the writer's thread changes
        self._rates = Rates(("submitted", "signals", COMPLETED, EXPIRED, CANCELLED))
        self._waited, self._lateness, self._commits = Durations(), Durations(), Durations()
        self._classes = Classes()
        self._recent = Recent()
        self._late = Late(purgatory.progress)
        self._counted_from_ms = purgatory.now_ms
        self._moved: dict[str, tuple[int, int]] = {}  # subscriber: position, since when
        self._note_positions(self._counted_from_ms)
        self._inspections = Inspections(purgatory)
        self._advice: dict[str, ClassAdvice] = {}
        self._advised_s = -_ADVISE_AGAIN_S
        self._advising: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[bytes] | None = None
        self._written_s = 0.0
        self._loop = _running_loop()
        self._catching_up = False
        self._remove_listener: Callable[[], None] = purgatory.listen(self.on_news)

    def close(self) -> None:
        """Count no more."""
        self._remove_listener()
        for task in (self._advising, self._writing):
            if task is not None:
                task.cancel()

    # Counting, on the writer's thread.

    def on_news(self, news: News) -> None:
        """Count a batch."""
        time_ms, outcomes = news.time_ms, news.outcomes
        by_class: dict[str, list[Operation]] = {}
        for operation in outcomes:
            by_class.setdefault(operation.class_, []).append(operation)
        by_status = Counter(map(attrgetter("status"), outcomes))
        told_ms = time_ms + news.commit_ms
        late_ms = [told_ms - each.deadline_ms for each in outcomes if each.status == EXPIRED]
        counts = {"submitted": news.submissions, "signals": news.signals}
        counts |= {status: by_status[status] for status in STATUSES}
        with self._lock:
            if len(self._moved) < _FEW_SUBSCRIBERS or time_ms > self._noted_ms + STEP_MS:
                self._note_positions(time_ms)
            self._rates.add(time_ms, counts)
            self._commits.add(time_ms, (news.commit_ms,))
            if news.signals:
                self._late.look(time_ms)
            if outcomes:
                self._waited.add(time_ms, map(attrgetter("waited_ms"), outcomes))
                self._lateness.add(time_ms, late_ms)
            for class_, operations in by_class.items():
                statuses = Counter(map(attrgetter("status"), operations))
                self._classes.add(time_ms, class_, statuses)
                self._draw(time_ms, class_, operations)
            self._catch_up_later()

    def _draw(self, time_ms: int, class_: str, operations: list[Operation]) -> None:
        for ended, operation in self._recent.offer(time_ms, class_, operations):
            if ended.status == EXPIRED:
                self._late.follow(ended, operation, time_ms)

    def _catch_up_later(self) -> None:
        """Signals may be over: look at the rest of the expired in a second. The lock is held."""
        if self._late.is_behind and not self._catching_up and self._loop is not None:
            self._catching_up = True
            self._loop.call_soon_threadsafe(self._loop.call_later, 1.0, self._catch_up)

    def _catch_up(self) -> None:
        with self._lock:
            self._late.catch_up()
            self._catching_up = False
            self._catch_up_later()

    # Asking.

    async def as_json(self) -> bytes:
        """The numbers as JSON. However many ask, they are gathered twice a second at most."""
        if self._writing is None or (
            self._writing.done() and time.monotonic() > self._written_s + _WRITE_AGAIN_S
        ):
            self._writing = asyncio.get_running_loop().create_task(self._write())
            self._writing.add_done_callback(retrieve_error)
        return await asyncio.shield(self._writing)

    async def _write(self) -> bytes:
        try:
            return encode(await self.gather())
        finally:
            self._written_s = time.monotonic()

    async def gather(self) -> dict[str, Any]:
        """All numbers, ready for JSON."""
        inspection = await self._inspections.latest()
        not_ready = self._service.trouble()
        purgatory = self._service.purgatory
        now_ms = purgatory.now_ms
        with self._lock:
            rates_from_ms, series = self._rates.by_second(now_ms)
            totals = dict(self._rates.totals)
            durations = {
                name: _durations(durations, now_ms)
                for name, durations in (
                    ("waited", self._waited),
                    ("lateness", self._lateness),
                    ("commit", self._commits),
                )
            }
            classes_from_ms, shown, others = self._classes.over(now_ms, SHOWN_CLASSES)
            resolution_ms = self._late.resolution_ms
            samples: dict[str, list[Ended]] = {}
            for each in shown:
                sample = None if each.name is None else self._recent.sample(each.name)
                if each.name is not None and sample is not None:
                    samples[each.name] = sample.ended()
        self._advise(samples)
        state = {
            "now_ms": now_ms,
            "started_ms": self._service.started_ms,
            "counted_from_ms": self._counted_from_ms,
            "not_ready": not_ready,
            "waiting": len(purgatory),
            "max_waiting": self._service.settings.max_waiting,
            "rates": {"from_ms": rates_from_ms, "step_ms": STEP_MS, **series},
            "totals": totals,
            **durations,
            "classes": {
                "from_ms": classes_from_ms,
                "step_ms": SLICE_MS,
                "rows": [self._class(each, samples) for each in shown],
                "others": None if others is None else self._class(others, samples),
                "advisor": "ready" if is_installed() else INSTALL,
                "late_known_within_ms": resolution_ms,
            },
            "inspection": inspection and inspection.as_fields(purgatory),
            "subscribers": self._subscribers(now_ms),
            "outcomes": {"first": purgatory.first_outcome, "last": purgatory.last_outcome},
            "file_bytes": purgatory.file_bytes,
        }
        by_class = (
            findings.expiries(each, classes_from_ms, samples.get(each.name or "", ()))
            for each in shown
        )
        all_findings = [*findings.of_service(state), *(each for each in by_class if each)]
        state["findings"] = sorted(all_findings, key=lambda each: each["level"])
        return state

    def _class(self, counts: ClassCounts, samples: dict[str, list[Ended]]) -> dict[str, Any]:
        advice = None if counts.name is None else self._advice.get(counts.name)
        return {
            "name": counts.name,
            **{status: counts.count(status) for status in STATUSES},
            "ended_by_step": counts.ended_by_slice(),
            "expired_by_step": counts.by_status[EXPIRED],
            "is_sampled": counts.name in samples,
            "advice": None if advice is None else asdict(advice),
        }

    # Subscribers.

    def _note_positions(self, time_ms: int) -> None:
        """Which subscribers have moved? As it happens, so that it is known when somebody asks."""
        self._noted_ms = time_ms
        noted = self._moved
        self._moved = {
            name: noted[name] if noted.get(name, (-1, 0))[0] == position else (position, time_ms)
            for name, position in self._service.purgatory.subscriptions().items()
        }

    def _subscribers(self, now_ms: int) -> list[dict[str, Any]]:
        with self._lock:
            self._note_positions(now_ms)
            moved = self._moved
        return [
            {
                "name": row["name"],
                "position": row["position"],
                "behind": row["behind"],
                "moved_ms": moved.get(row["name"], (0, now_ms))[1] if row["behind"] else now_ms,
                "has_webhook": row["webhook"] is not None,
                "error": row["webhook"] and row["webhook"]["last_error"],
            }
            for row in self._service.subscribers()
        ]

    # The advisor.

    def _advise(self, samples: dict[str, list[Ended]]) -> None:
        """Begin to advise, beside this, if it is time for that."""
        if self._advising is not None or not is_installed():
            return
        if time.monotonic() < self._advised_s + _ADVISE_AGAIN_S:
            return
        self._advising = asyncio.get_running_loop().create_task(self._advise_all(samples))

    async def _advise_all(self, samples: dict[str, list[Ended]]) -> None:
        try:
            self._advice = await asyncio.to_thread(
                lambda: {name: advise(sample) for name, sample in samples.items() if sample}
            )
        finally:
            self._advised_s = time.monotonic()
            self._advising = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _durations(durations: Durations, now_ms: int) -> dict[str, Any]:
    """Percentiles over the whole window, and p99 over its last minute; None of nothing."""
    whole, minute = durations.over(now_ms), durations.over(now_ms, findings.MINUTE)
    return {
        "over_ms": SLICES * SLICE_MS,
        "count": whole.count,
        "p50_ms": whole.percentile_ms(50) if whole.count else None,
        "p99_ms": whole.percentile_ms(99) if whole.count else None,
        "max_ms": whole.max_ms if whole.count else None,
        "last_minute": {
            "count": minute.count,
            "p99_ms": minute.percentile_ms(99) if minute.count else None,
        },
    }
