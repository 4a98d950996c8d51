"""Expired operations of the samples whose condition may still come to hold.

A timeout was too short if the condition held soon after. So what had not held when an operation
expired is looked at again when signals come, as many at a time as are needed for each to be looked
at once a second; when signals stop, the rest are looked at within a second more. The moment found
is up to two seconds later than it was. With more than 10,000 requirements to look at it takes
longer, and `resolution_ms` says how long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from sojourn.durable import Operation
from sojourn.service.recent import Ended

MOST = 100_000  # in the circle; the samples have fewer
MOST_REQUIREMENTS = 32  # of an operation that is followed
PER_SECOND = 10_000

Progress = Callable[[str], int | None]


class Late:
    """Those that are followed, in a circle. Not for several threads at once."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._circle: deque[Ended] = deque()
        self._requirements = 0
        self._signals_ms: int | None = None  # when the last ones came
        self._unseen = 0  # those at the left of the circle, not looked at since

    def __len__(self) -> int:
        return len(self._circle)

    @property
    def resolution_ms(self) -> int:
        """How much later than it was a moment may be taken to be."""
        return 1_000 + max(1_000, 1_000 * self._requirements // PER_SECOND)

    def follow(self, ended: Ended, operation: Operation, time_ms: int) -> None:
        """Look from now on whether its condition comes to hold."""
        requires = operation.requires
        if len(requires) > MOST_REQUIREMENTS:
            return
        ended.lacked = tuple(each for each in requires if not self._holds(*each))
        ended.missing = operation.needed - (len(requires) - len(ended.lacked))
        if ended.missing <= 0:  # by the batch that expired it
            ended.condition_ms = time_ms
            return
        if len(self._circle) == MOST:
            self._drop_those_that_left_the_samples()
        ended.is_followed = True
        self._circle.append(ended)
        self._requirements += len(ended.lacked)

    def look(self, time_ms: int) -> None:
        """Signals came: look at as many as the time since the last look allows."""
        passed_ms = 1_000 if self._signals_ms is None else time_ms - self._signals_ms
        self._signals_ms = time_ms
        self._unseen = len(self._circle)
        most = min(max(self._requirements, 1), PER_SECOND)
        self._look(-(-most * min(passed_ms, 1_000) // 1_000))

    def catch_up(self) -> None:
        """No signals came since: look at those that have not been looked at after the last."""
        self._look(PER_SECOND)

    @property
    def is_behind(self) -> bool:
        """Whether there are some that `catch_up` would look at."""
        return self._unseen > 0

    def _look(self, budget: int) -> None:
        while self._unseen and budget > 0:
            self._unseen -= 1
            ended = self._circle.popleft()
            budget -= len(ended.lacked)
            holding = sum(self._holds(*each) for each in ended.lacked)
            if ended.is_followed and holding < ended.missing:
                self._circle.append(ended)
                continue
            self._requirements -= len(ended.lacked)
            if ended.is_followed:
                ended.is_followed = False
                ended.condition_ms = self._signals_ms

    def _drop_those_that_left_the_samples(self) -> None:
        unseen = sum(each.is_followed for each in islice(self._circle, self._unseen))
        self._circle = deque(each for each in self._circle if each.is_followed)
        self._unseen = unseen
        self._requirements = sum(len(each.lacked) for each in self._circle)

    def _holds(self, key: str, offset: int) -> bool:
        progress = self._progress(key)
        return progress is not None and progress >= offset
