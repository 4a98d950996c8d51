"""A leadership: the time in which one broker leads a partition, and how far it got.

    epoch         4    5    6    7    8
    leader        1    1    2    -    1        -: no leader
    leadership   [  A   ]  [B]       [C ...    A lasts two epochs: a replica was removed, the leader
                                               stayed

A produce with acks=all waits for the high watermark of the leadership under which it was
appended. A later leader's does not count: it may never have had those records. So each
leadership has its own key in the produce purgatory:

    the high watermark moves    signal(key, high watermark)
    the leadership ends         signal(key, the largest offset there is): all requirements hold

A produce waits only for what the high watermark has not reached yet, so no past signal is needed,
and idle keys can be forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.core.purgatory import Purgatory
    from sojourn.kafka.wire import ErrorCode

_BEYOND_ALL = 2**63 - 1


class Leadership:
    """One broker's time as leader of one partition. Called with the agenda held."""

    __slots__ = ("_purgatory", "end_error", "high_watermark", "key")

    def __init__(self, key: str, high_watermark: int, purgatory: Purgatory) -> None:
        self.key = key
        self.high_watermark = high_watermark
        #: The error for what was not replicated when it ended; None while it lasts.
        self.end_error: ErrorCode | None = None
        self._purgatory = purgatory

    def signal(self) -> None:
        """Complete the produces that have nothing more to wait for."""
        self._purgatory.signal(
            self.key, self.high_watermark if self.end_error is None else _BEYOND_ALL
        )

    def __repr__(self) -> str:
        state = "" if self.end_error is None else f", ended: {self.end_error.name}"
        return f"<Leadership {self.key} up to {self.high_watermark}{state}>"
