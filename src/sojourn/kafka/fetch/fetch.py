"""Fetch: read what each partition has, or wait until it is enough.

Consumers read up to the high watermark, or with `read_committed` to the last stable offset
(isolation.py); followers to the leader's end. A follower's fetch also tells the leader how far it
has come, which moves the high watermark: so followers in this process use `Fetch` just like
consumers over the wire, and wait in the same purgatory. A consumer may also read from a follower,
up to the high watermark that the follower knows.

A fetch is answered at once if it reads as much as `min_bytes`, or a partition has an error. Else
it waits, at most for `max_wait_ms`. It is tried again when something is appended, a watermark
moves or the leader changes, and is then answered if

    A  this broker no longer leads one of the partitions, or the topic is deleted
    B  the client's leader epoch is out of date (or ahead)
    C  the offset asked for is no longer in the log, or above what the client may read
    D  the client's log diverges from ours (the epochs differ)
    E  a follower does not know that the high watermark, or the log's start, has moved
       (Kafka tells it with the next fetch, half a second later at most; here a follower's
       fetch may wait for long, and a test should not have to)
    F  there are enough bytes, counting for each partition no more than it may return
    G  it expires: it returns what there is, without error

Unknown partitions do not end the wait, unless all are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.fetch.reader import CONSUMER, NO_LIMIT, FetchPartition, Reader, ReadResult
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker


class Fetch:
    """One fetch, by a consumer or a follower, of partitions of this broker."""

    def __init__(
        self,
        broker: Broker,
        fetch_partitions: Sequence[FetchPartition],
        respond: Callable[[Sequence[ReadResult]], None],
        *,
        max_wait_ms: int,
        min_bytes: int = 1,
        max_bytes: int = NO_LIMIT,
        replica: int = CONSUMER,
        only_leader: bool = True,
        committed: bool = False,
    ) -> None:
        self.broker = broker
        self.fetch_partitions = fetch_partitions
        self.respond = respond
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.replica = replica
        self.only_leader = only_leader
        self._reader = Reader(broker, replica, only_leader, committed)

    def start(self) -> DelayedFetch | None:
        """Answer now, or wait; returns what waits."""
        if self._try_answer():
            return None
        waiting = DelayedFetch(self)
        keys: list[Hashable] = []
        for fetch_partition in self.fetch_partitions:
            partition = fetch_partition.partition
            if partition is None:
                continue
            keys.append(partition.key)
            if not (self.only_leader or partition.is_led_by(self.broker.id)):
                keys.append((partition.key, self.broker.id))  # what this broker has replicated
                partition.read_at.add(self.broker.id)
        self.broker.cluster.purgatories.fetch.try_complete_else_watch(waiting, keys)
        return waiting

    def _try_answer(self) -> bool:
        """Answer if that need not wait; return whether it was answered."""
        is_follower = not self._reader.is_consumer
        if is_follower:
            self._note_progress()
        if self.max_wait_ms <= 0 or all(
            fetch_partition.partition is None for fetch_partition in self.fetch_partitions
        ):
            self.finish()
            return True
        if is_follower:  # it waits for more than bytes
            is_enough = self.is_enough()
            if is_enough:
                self.finish()
            return is_enough
        results = self._read()
        is_enough = sum(result.size for result in results) >= self.min_bytes or any(
            result.fetch_partition.partition is not None
            and (result.error is not ErrorCode.none or result.diverging is not None)
            for result in results
        )
        if is_enough:
            self.respond(results)
        return is_enough

    def _note_progress(self) -> None:
        """Tell the leader's partitions how far the follower has come."""
        for fetch_partition in self.fetch_partitions:
            # An offset in a log that diverges from ours is no progress.
            if (
                fetch_partition.partition is not None
                and self._reader.problem(fetch_partition) is None
            ):
                fetch_partition.partition.on_follower_fetch(
                    self.replica, fetch_partition.offset, fetch_partition.start_offset
                )

    def is_enough(self) -> bool:
        """Whether this can be answered before it expires."""
        reader = self._reader
        available = 0
        for fetch_partition in self.fetch_partitions:
            partition = fetch_partition.partition
            if partition is None:
                continue
            if reader.problem(fetch_partition) is not None:
                return True  # cases A, B, C, D
            log = reader.log(partition)
            upto = reader.upto(log)
            if reader.is_consumer:
                if fetch_partition.offset > upto:
                    return True  # case C
            else:
                if log.start_offset > fetch_partition.start_offset:
                    return True  # case E
                follower = partition.followers.get(self.replica)
                if follower is not None and follower.sent_high_watermark < log.high_watermark:
                    return True  # case E
            if fetch_partition.offset < upto:
                available += min(
                    log.bytes_between(fetch_partition.offset, upto), fetch_partition.max_bytes
                )
        return available >= self.min_bytes  # case F

    def finish(self) -> None:
        """Read what there is, and answer."""
        self.respond(self._read())

    def _read(self) -> list[ReadResult]:
        left = self.max_bytes
        results = []
        has_any = False
        for fetch_partition in self.fetch_partitions:
            result = self._reader.read(fetch_partition, left, not has_any)
            size = result.size
            if size:
                has_any = True
                left = max(0, left - size)
            results.append(result)
        return results


class DelayedFetch(DelayedRequest):
    """A fetch that waits for bytes."""

    def __init__(self, fetch: Fetch) -> None:
        super().__init__(fetch.max_wait_ms, fetch.broker.cluster.agenda)
        self.fetch = fetch
        # A follower's was tried a moment ago, with the agenda held: the first try is for nothing.
        self._is_tried = fetch.replica != CONSUMER

    def try_complete(self) -> bool:
        if self._is_tried:
            self._is_tried = False
            return False
        return self.fetch.is_enough()

    def on_complete(self) -> None:  # also case G
        self.fetch.finish()
