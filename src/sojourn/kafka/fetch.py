"""Fetch: give what there is from each partition, or wait until it is enough.

Consumers read up to the high watermark, followers to the leader's end. A follower's fetch also
says how far it has come, which is what moves the high watermark: so followers in this process
come through `Fetch` just like consumers through the wire, and wait in the same purgatory.

A fetch waits while there are fewer than `min_bytes` over all its partitions and `max_wait_ms`
has not passed. It is looked at again when something is appended, a watermark moves or the
leader changes, and is then answered if

    A  this broker no longer leads one of the partitions, or the topic is gone
    B  the client's idea of the leader's epoch is out of date (or ahead)
    C  the offset asked for is no longer in the log: truncated, or deleted
    D  the log has parted from the follower's (the epochs differ)
    E  a follower does not yet know that the high watermark, or the log's start, has moved
       (Kafka tells it with the next fetch, half a second later at most; here a follower's
       fetch may wait for long, and a test should not have to)
    F  there are enough bytes, counting for each partition no more than it may give
    G  its time is up: it gets what there is, without error
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply
    from sojourn.kafka.partition import Partition
    from sojourn.kafka.records import Batch

CONSUMER = -1
_LONGEST_MS = 2**31 - 1


class Asked(NamedTuple):
    """What is asked of one partition."""

    partition: Partition | None
    number: int  # of the partition, as the client has it
    offset: int
    max_bytes: int
    leader_epoch: int = -1  # as the client knows it
    last_epoch: int = -1  # of what the follower has fetched last
    start_offset: int = -1  # of the follower's log


class Read(NamedTuple):
    """What one partition gives."""

    asked: Asked
    error: ErrorCode
    batches: Sequence[Batch] = ()
    high_watermark: int = -1
    start_offset: int = -1
    diverging: tuple[int, int] | None = None  # the epoch the logs still share, and its end

    @property
    def size(self) -> int:
        return sum([len(batch.data) for batch in self.batches])


class Fetch:
    """One fetch, by a consumer or a follower, of partitions that this broker should lead."""

    def __init__(
        self,
        broker: Broker,
        asked: Sequence[Asked],
        respond: Callable[[Sequence[Read]], None],
        *,
        max_wait_ms: int,
        min_bytes: int = 1,
        max_bytes: int = _LONGEST_MS,
        replica: int = CONSUMER,
    ) -> None:
        self.broker = broker
        self.asked = asked
        self.respond = respond
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.replica = replica

    def start(self) -> DelayedFetch | None:
        """Answer now, or wait; returns what waits."""
        if self.replica != CONSUMER:
            for asked in self.asked:
                # What has parted from our log does not count as having come so far.
                if (
                    asked.partition is not None
                    and self._fault(asked) is ErrorCode.none
                    and self._diverging(asked) is None
                ):
                    asked.partition.follower_fetched(self.replica, asked.offset, asked.start_offset)
        if self.max_wait_ms <= 0 or not self.asked or self.is_enough():
            self.finish()
            return None
        waiting = DelayedFetch(self)
        keys = tuple([asked.partition.key for asked in self.asked if asked.partition is not None])
        self.broker.cluster.purgatories.fetch.try_complete_else_watch(waiting, keys)
        return waiting

    def is_enough(self) -> bool:
        """Whether this can be answered before its time."""
        available = 0
        for asked in self.asked:
            partition = asked.partition
            if partition is None or self._fault(asked) is not ErrorCode.none:
                return True  # cases A, B, C
            log = partition.log
            if self.replica == CONSUMER:
                upto = log.high_watermark
            else:
                upto = log.end_offset
                if self._diverging(asked) is not None:
                    return True  # case D
                if log.start_offset > asked.start_offset >= 0:
                    return True  # case E
                follower = partition.followers.get(self.replica)
                if follower is not None and follower.sent_high_watermark < log.high_watermark:
                    return True  # case E
            if asked.offset < upto:
                available += min(log.bytes_between(asked.offset, upto), asked.max_bytes)
        return available >= self.min_bytes  # case F

    def finish(self) -> None:
        """Read what there is, and answer."""
        left = self.max_bytes
        reads = []
        has_any = False
        for asked in self.asked:
            read = self._read(asked, left, not has_any)
            size = read.size
            if size:
                has_any = True
                left = max(0, left - size)
            reads.append(read)
        self.respond(reads)

    def _fault(self, asked: Asked) -> ErrorCode:
        """What speaks against reading this at all."""
        partition = asked.partition
        if partition is None or partition.is_deleted:
            return ErrorCode.unknown_topic_or_partition
        if not partition.is_led_by(self.broker.id):
            return ErrorCode.not_leader_or_follower
        try:
            partition.check_epoch(asked.leader_epoch)
        except Refused as refused:
            return refused.code
        log = partition.log
        if not log.start_offset <= asked.offset <= log.end_offset:
            if self.replica != CONSUMER and self._diverging(asked) is not None:
                return ErrorCode.none
            return ErrorCode.offset_out_of_range
        return ErrorCode.none

    def _diverging(self, asked: Asked) -> tuple[int, int] | None:
        if asked.last_epoch < 0 or asked.partition is None:
            return None
        epoch, end = asked.partition.log.end_of_epoch(asked.last_epoch)
        if epoch < asked.last_epoch or end < asked.offset:
            return epoch, end
        return None

    def _read(self, asked: Asked, max_bytes: int, at_least_one: bool) -> Read:
        error = self._fault(asked)
        partition = asked.partition
        if partition is None or error is not ErrorCode.none:
            return Read(asked, error)
        log = partition.log
        if self.replica == CONSUMER:
            upto = log.high_watermark
        else:
            upto = log.end_offset
            diverging = self._diverging(asked)
            if diverging is not None:
                return Read(
                    asked, ErrorCode.none, (), log.high_watermark, log.start_offset, diverging
                )
            follower = partition.followers.get(self.replica)
            if follower is not None:
                follower.sent_high_watermark = log.high_watermark
        batches = log.read(asked.offset, upto, min(max_bytes, asked.max_bytes), at_least_one)
        return Read(asked, ErrorCode.none, batches, log.high_watermark, log.start_offset)


class DelayedFetch(DelayedRequest):
    """A fetch that waits for bytes."""

    def __init__(self, fetch: Fetch) -> None:
        super().__init__(fetch.max_wait_ms, fetch.broker.cluster.agenda)
        self.fetch = fetch

    def try_complete(self) -> bool:
        return self.fetch.is_enough() and self.force_complete()

    def on_complete(self) -> None:  # also case G
        self.fetch.finish()


# The wire's side.


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {"fetch": fetch}


def fetch(request: Any, reply: Reply, context: Context) -> None:
    """Answer a consumer's fetch. There are no sessions: each fetch names all its partitions."""
    if getattr(request, "session_id", 0):
        reply({"error_code": ErrorCode.fetch_session_id_not_found, "responses": []})
        return
    broker = context.broker
    controller = broker.cluster.controller
    by_id = context.api_version >= 13
    asked: list[Asked] = []
    rows: list[tuple[Any, list[Asked]]] = []
    for topic in request.topics:
        if by_id:
            found = controller.topic_by_id(topic.topic_id) if topic.topic_id else None
        else:
            found = controller.topics.get(topic.topic)
        row = [
            Asked(
                found.partition(partition.partition) if found else None,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                getattr(partition, "current_leader_epoch", -1),
            )
            for partition in topic.partitions
        ]
        asked += row
        rows.append((topic, row))

    def respond(reads: Sequence[Read]) -> None:
        left = iter(reads)
        fields = []
        for topic, row in rows:
            partitions = [_fields(next(left), unknown_id=by_id) for _ in row]
            name = {"topic_id": topic.topic_id} if by_id else {"topic": topic.topic}
            fields.append({**name, "partitions": partitions})
        reply({"responses": fields, "node_endpoints": _endpoints(reads, broker)})

    Fetch(
        broker,
        asked,
        respond,
        max_wait_ms=milliseconds(request.max_wait),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
    ).start()


def _fields(read: Read, unknown_id: bool) -> dict[str, Any]:
    error = read.error
    partition = read.asked.partition
    if partition is None and unknown_id:
        error = ErrorCode.unknown_topic_id
    fields: dict[str, Any] = {
        "partition_index": read.asked.number,
        "error_code": error,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.high_watermark,
        "log_start_offset": read.start_offset,
        "aborted_transactions": None,
        "records": b"".join([batch.data for batch in read.batches]),
    }
    if partition is not None and error in _LEADER_ELSEWHERE:
        fields["current_leader"] = {
            "leader_id": partition.leader,
            "leader_epoch": partition.leader_epoch,
        }
    return fields


_LEADER_ELSEWHERE = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def _endpoints(reads: Sequence[Read], broker: Broker) -> list[dict[str, Any]]:
    """Where the leaders are that were not found here."""
    leaders = {
        read.asked.partition.leader
        for read in reads
        if read.error in _LEADER_ELSEWHERE
        and read.asked.partition is not None
        and read.asked.partition.leader >= 0
    }
    return [broker.cluster.broker(leader).endpoint() for leader in sorted(leaders)]
