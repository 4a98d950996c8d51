"""Fetch sessions (KIP-227): a client names its partitions once, then only the changes.

    request           session   epoch   names                answer
    full              0         0       all its partitions   all of them, and a session's id
    incremental       id        1       the changes          those with records, an error, another
    incremental       id        2       ...                    watermark or log start
    final             0 or id   -1      all its partitions   all of them; the session is closed
    full again        id        0       all its partitions   as the first; the old one is closed

Partitions that returned records go to the end of the queue, so that with a limit on the answer's
size each has its turn. A broker keeps `max.incremental.fetch.session.cache.slots` sessions. If
there is no room, and none has been idle for two minutes, the client gets no session (id 0).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.fetch.reader import FetchPartition, ReadResult

NO_SESSION = 0
FULL = 0
FINAL = -1

_MOST_EPOCH = 2**31 - 1
_IDLE_MS = 120_000

#: A partition in a session: its topic's name or id, and its number.
SessionPartition = tuple[str | UUID | None, int]


class CachedPartition:
    """What a session asks of a partition, and what was sent last."""

    __slots__ = ("fetch_partition", "high_watermark", "start_offset")

    def __init__(self, fetch_partition: FetchPartition) -> None:
        self.fetch_partition = fetch_partition
        self.high_watermark = -1
        self.start_offset = -1

    def update(self, read: ReadResult) -> bool:
        """Keep what is sent now; return whether it differs from what was sent last."""
        has_changed = (
            bool(read.batches)
            or read.diverging is not None
            or read.high_watermark != self.high_watermark
            or read.start_offset != self.start_offset
        )
        self.high_watermark, self.start_offset = read.high_watermark, read.start_offset
        if read.error is not ErrorCode.none:
            self.high_watermark = -1  # so that the end of the error is sent, too
            return True
        return has_changed


class FetchSession:
    """One client's partitions, in the order in which they are read."""

    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1  # that of the next request
        self.by_id = by_id
        self.used_ms = now_ms
        self.partitions: dict[SessionPartition, CachedPartition] = {}

    def change(
        self,
        fetch_partitions: Mapping[SessionPartition, FetchPartition],
        forgotten: Iterable[SessionPartition],
    ) -> None:
        """Add or change these partitions, and remove the forgotten ones."""
        for place, one in fetch_partitions.items():
            cached = self.partitions.get(place)
            if cached is None:
                self.partitions[place] = CachedPartition(one)
            else:
                cached.fetch_partition = one
        for place in forgotten:
            self.partitions.pop(place, None)

    def update(self, place: SessionPartition, read: ReadResult) -> bool:
        """Return whether the result has to be sent; with records the partition goes last."""
        cached = self.partitions.get(place)
        if cached is None:
            return False
        has_changed = cached.update(read)
        if read.batches:
            self.partitions[place] = self.partitions.pop(place)
        return has_changed


class FetchSessions:
    """One broker's sessions. Called with the agenda held."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_id: dict[int, FetchSession] = {}  # the one used longest ago first

    def __len__(self) -> int:
        return len(self._by_id)

    def new(self, by_id: bool) -> FetchSession | None:
        """A session for another client; None if there is no room."""
        cluster = self._broker.cluster
        most = self._broker.settings.number("max.incremental.fetch.session.cache.slots")
        now_ms = cluster.now_ms()
        if len(self._by_id) >= most:
            oldest = next(iter(self._by_id.values()), None)
            if oldest is None or now_ms - oldest.used_ms < _IDLE_MS:
                return None
            del self._by_id[oldest.id]
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = random.randrange(1, 2**31)
        session = self._by_id[session_id] = FetchSession(session_id, by_id, now_ms)
        return session

    def continue_session(self, session_id: int, epoch: int, by_id: bool) -> FetchSession:
        """The session of this incremental request; or Refused."""
        session = self._by_id.pop(session_id, None)
        if session is None:
            raise Refused(ErrorCode.fetch_session_id_not_found)
        self._by_id[session_id] = session
        if session.epoch != epoch:
            raise Refused(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise Refused(ErrorCode.fetch_session_topic_id_error)
        session.epoch = 1 if epoch == _MOST_EPOCH else epoch + 1
        session.used_ms = self._broker.cluster.now_ms()
        return session

    def peek(self, session_id: int) -> FetchSession | None:
        """This session, without continuing it."""
        return self._by_id.get(session_id)

    def close(self, session_id: int) -> None:
        """Remove the session."""
        self._by_id.pop(session_id, None)

    def clear(self) -> None:
        """Remove all sessions: the broker has stopped."""
        self._by_id.clear()
