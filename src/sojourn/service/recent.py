"""A sample of the operations that ended lately, by class: what the timeout advisor looks at.

Of each class the last 1,500 are kept. In ten seconds a class puts in 50 at most, drawn so that each
of its ends in these ten seconds has the same chance (Li's algorithm L). However busy a class is,
its sample covers five minutes or more, and what ends in large batches weighs no less than what
ends one by one. Of a class with up to five ends a second none is left out.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Sequence

from sojourn.durable import Operation
from sojourn.durable.answers import COMPLETED
from sojourn.service.durations import SLICE_MS

MOST_SAMPLES = 50
SAMPLE = 1_500
PER_SLICE = 50
_IDLE_MS = 600_000  # a class that had no end for so long makes room for another


class Ended:
    """One operation of a sample."""

    __slots__ = (
        "at_ms",
        "condition_ms",
        "is_followed",
        "lacked",
        "missing",
        "status",
        "submitted_ms",
        "timeout_ms",
    )

    def __init__(self, operation: Operation) -> None:
        self.status = operation.status
        self.submitted_ms = operation.submitted_ms
        self.timeout_ms = operation.timeout_ms
        self.at_ms: int = operation.at_ms or 0
        #: when its condition held, also if that was after it had expired; None as far as known
        self.condition_ms = operation.at_ms if operation.status == COMPLETED else None
        #: the requirements that did not hold when it expired, and how many more had to
        self.lacked: tuple[tuple[str, int], ...] = ()
        self.missing = 0
        self.is_followed = False


Drawn = tuple[Ended, Operation]


class Sample:
    """The last ends of one class."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._before: deque[Ended] = deque(maxlen=SAMPLE)
        self._slice = -1
        self._drawn: list[Ended] = []  # of the present slice
        self._weight = 1.0
        self._skip = 0

    def __len__(self) -> int:
        return len(self._before) + len(self._drawn)

    @property
    def last_ms(self) -> int:
        return (self._slice + 1) * SLICE_MS

    def ended(self) -> list[Ended]:
        return [*self._before, *self._drawn]

    def offer(self, time_ms: int, operations: Sequence[Operation]) -> list[Drawn]:
        """Draw from these, which ended at one time; return those that are new in the sample."""
        if time_ms // SLICE_MS > self._slice:
            self._next_slice(time_ms // SLICE_MS)
        at = PER_SLICE - len(self._drawn)  # so many are taken as they come
        added = [(Ended(operation), operation) for operation in operations[:at]]
        self._drawn += [ended for ended, _ in added]
        if added and len(self._drawn) == PER_SLICE:
            self._draw_skip()
        while at + self._skip < len(operations):
            at += self._skip
            drawn = Ended(operations[at])
            slot = self._chance.randrange(PER_SLICE)
            self._drawn[slot].is_followed = False
            self._drawn[slot] = drawn
            added.append((drawn, operations[at]))
            at += 1
            self._draw_skip()
        self._skip -= max(len(operations) - at, 0)
        return [each for each in added if each[0] in self._drawn]

    def _draw_skip(self) -> None:
        """How many to pass over until the next one that is drawn."""
        self._weight *= math.exp(math.log(1 - self._chance.random()) / PER_SLICE)
        self._skip = int(math.log(1 - self._chance.random()) / math.log1p(-self._weight))

    def _next_slice(self, slice: int) -> None:
        for each in self._drawn:
            if len(self._before) == SAMPLE:
                self._before[0].is_followed = False
            self._before.append(each)
        self._drawn = []
        self._slice = slice
        self._weight = 1.0
        self._skip = 0


class Recent:
    """The samples, for fifty classes at most. Not for several threads at once."""

    def __init__(self) -> None:
        self._samples: dict[str, Sample] = {}
        self._chance = random.Random(0)
        self._look_again_ms = 0

    def sample(self, class_: str) -> Sample | None:
        return self._samples.get(class_)

    def offer(self, time_ms: int, class_: str, operations: Sequence[Operation]) -> list[Drawn]:
        """Draw from these; return those that are new in the sample."""
        sample = self._samples.get(class_)
        if sample is None:
            if len(self._samples) == MOST_SAMPLES and not self._make_room(time_ms):
                return []
            sample = self._samples[class_] = Sample(self._chance)
        return sample.offer(time_ms, operations)

    def _make_room(self, time_ms: int) -> bool:
        if time_ms < self._look_again_ms:
            return False
        self._look_again_ms = time_ms + SLICE_MS
        idlest = min(self._samples, key=lambda class_: self._samples[class_].last_ms)
        if self._samples[idlest].last_ms + _IDLE_MS > time_ms:
            return False
        for each in self._samples.pop(idlest).ended():
            each.is_followed = False
        return True
