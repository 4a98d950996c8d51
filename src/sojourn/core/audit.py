"""The audit: now and then a purgatory tries some of its operations that nobody signalled.

Somebody changed a condition and forgot to signal: the operation waits until it expires, and
nobody learns why. The audit finds some of these, and names the keys.
"""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING

from sojourn.core.task import TimerTask
from sojourn.errors import Closed

if TYPE_CHECKING:
    from sojourn.core.purgatory import Purgatory


class Auditor(TimerTask):
    """Has a purgatory look at a sample of its operations, again and again, until it is closed."""

    def __init__(self, every_ms: int, sample: int) -> None:
        super().__init__(every_ms)
        self._sample = sample

    def start(self, purgatory: Purgatory) -> None:
        self._purgatory = weakref.ref(purgatory)
        purgatory.timer.add(self)

    def run(self) -> None:
        purgatory = self._purgatory()
        if purgatory is not None:
            try:
                purgatory.audit(self._sample)
            finally:
                with contextlib.suppress(Closed):
                    purgatory.timer.add(self)
