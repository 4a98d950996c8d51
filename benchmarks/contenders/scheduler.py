"""APScheduler 3: a job scheduler, here to show what its ease costs. Small n only."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.contenders.contender import PAST_ALL_MS, Contender

if TYPE_CHECKING:
    from collections.abc import Sequence


class Scheduler(Contender):
    """`BackgroundScheduler` with its in-memory store and one worker; jobs run on a date.

    Late jobs are let run. For the expiry the scheduler's `datetime` is replaced by one that is
    30 s ahead.
    """

    def __init__(self) -> None:
        super().__init__()
        background = import_module("apscheduler.schedulers.background")
        self._lookup_error = import_module("apscheduler.jobstores.base").JobLookupError
        self._ran_before_cancel = 0
        self._scheduler = background.BackgroundScheduler(
            timezone="UTC",
            executors={"default": {"type": "threadpool", "max_workers": 1}},
            job_defaults={"misfire_grace_time": None},
        )
        self._scheduler.start()

    def add(self, delays: list[int]) -> Sequence[Any]:
        add_job, hit = self._scheduler.add_job, self.tally.hit
        now = datetime.now(self._scheduler.timezone)
        return [
            add_job(hit, "date", run_date=now + timedelta(milliseconds=delay_ms))
            for delay_ms in delays
        ]

    def cancel(self, handles: list[Any]) -> None:
        for job in handles:
            try:
                job.remove()
            except self._lookup_error:
                self._ran_before_cancel += 1

    def expire(self) -> int:
        base: Any = import_module("apscheduler.schedulers.base")
        real, base.datetime = base.datetime, _Ahead
        try:
            self._scheduler.wakeup()
            while self._scheduler.get_jobs():
                time.sleep(0.001)
            self._scheduler.shutdown(wait=True)
        finally:
            base.datetime = real  # the next round starts in the present
        return self.tally.count - self._ran_before_cancel


class _Ahead(datetime):
    """A wall clock 30 s ahead of the real one."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
        return datetime.now(tz) + timedelta(milliseconds=PAST_ALL_MS)
