"""Fetch sessions (KIP-227): a client names its partitions once, then only what changes.

    request           session   epoch   names                answer
    full              0         0       all its partitions   all of them, and a session's id
    incremental       id        1       what has changed     those with news: records, an error,
    incremental       id        2       ...                    another watermark or log start
    none wanted       0 or id   -1      all its partitions   all of them; the session is closed
    anew              id        0       all its partitions   as the first; the old one is closed

Partitions that gave records go to the end of the line, so that with a limit on the answer's size
each has its turn. A broker keeps so many sessions as it is set to; if there is no room, and none
has been idle for two minutes, a client is told to go on without one (id 0).
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
    from sojourn.kafka.fetch.fetch import Asked, Read

NO_SESSION = 0
FULL = 0
FINAL = -1

_MOST_EPOCH = 2**31 - 1
_IDLE_MS = 120_000

#: A partition as a session knows it: its topic's name or id, and its number.
Place = tuple[str | UUID | None, int]


class Known:
    """What a session knows of a partition: what is asked of it, and what was told last."""

    __slots__ = ("asked", "high_watermark", "start_offset")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.high_watermark = -1
        self.start_offset = -1

    def has_news(self, read: Read) -> bool:
        """Whether this has to be told; and remember that it was."""
        changed = (
            bool(read.batches)
            or read.diverging is not None
            or read.high_watermark != self.high_watermark
            or read.start_offset != self.start_offset
        )
        self.high_watermark, self.start_offset = read.high_watermark, read.start_offset
        if read.error is not ErrorCode.none:
            self.high_watermark = -1  # so that its end is told, too
            return True
        return changed


class Session:
    """One client's partitions, in the order in which they have their turn."""

    def __init__(self, session_id: int, by_id: bool, now_ms: int) -> None:
        self.id = session_id
        self.epoch = 1  # that of the next request
        self.by_id = by_id
        self.used_ms = now_ms
        self.partitions: dict[Place, Known] = {}

    def take(self, asked: Mapping[Place, Asked], forgotten: Iterable[Place]) -> None:
        """Ask this of these partitions from now on, and nothing of the forgotten ones."""
        for place, one in asked.items():
            known = self.partitions.get(place)
            if known is None:
                self.partitions[place] = Known(one)
            else:
                known.asked = one
        for place in forgotten:
            self.partitions.pop(place, None)

    def told(self, place: Place, read: Read) -> bool:
        """Whether the partition has news to be told; with records it goes to the line's end."""
        known = self.partitions.get(place)
        if known is None:
            return False
        news = known.has_news(read)
        if read.batches:
            self.partitions[place] = self.partitions.pop(place)
        return news


class FetchSessions:
    """One broker's sessions. Called with the agenda held."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._by_id: dict[int, Session] = {}  # the one used longest ago first

    def __len__(self) -> int:
        return len(self._by_id)

    def new(self, by_id: bool) -> Session | None:
        """A session for another client, if there is room for it."""
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
        session = self._by_id[session_id] = Session(session_id, by_id, now_ms)
        return session

    def next_of(self, session_id: int, epoch: int, by_id: bool) -> Session:
        """The session that goes on with this request; or Refused."""
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

    def peek(self, session_id: int) -> Session | None:
        """This session, without going on with it."""
        return self._by_id.get(session_id)

    def close(self, session_id: int) -> None:
        """The client has no use for it any more."""
        self._by_id.pop(session_id, None)

    def clear(self) -> None:
        """The broker has stopped."""
        self._by_id.clear()
