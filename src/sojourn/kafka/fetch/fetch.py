"""Fetch: give what there is from each partition, or wait until it is enough.

Consumers read up to the high watermark, or if they read only what transactions have committed to
the last stable offset (isolation.py); followers to the leader's end. A follower's fetch also
says how far it has come, which is what moves the high watermark: so followers in this process
come through `Fetch` just like consumers through the wire, and wait in the same purgatory.
A consumer may also read from a follower, as far as that knows to be committed.

A fetch is answered at once if what it reads is as much as `min_bytes`, or something is wrong with
a partition. Else it waits, at most for `max_wait_ms`. It is looked at again when something is
appended, a watermark moves or the leader changes, and is then answered if

    A  this broker no longer leads one of the partitions, or the topic is gone
    B  the client's idea of the leader's epoch is out of date (or ahead)
    C  the offset asked for is no longer in the log, or not yet committed
    D  the log has parted from what the client has (the epochs differ)
    E  a follower does not yet know that the high watermark, or the log's start, has moved
       (Kafka tells it with the next fetch, half a second later at most; here a follower's
       fetch may wait for long, and a test should not have to)
    F  there are enough bytes, counting for each partition no more than it may give
    G  its time is up: it gets what there is, without error

A partition that there is not is no reason to answer before its time, unless all are such.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from sojourn.kafka.delayed import DelayedRequest
from sojourn.kafka.fetch.sessions import FINAL, FULL, NO_SESSION, Place, Session
from sojourn.kafka.log.isolation import READ_COMMITTED, READ_UNCOMMITTED
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.log.isolation import Aborted
    from sojourn.kafka.log.log import Log
    from sojourn.kafka.partition import Partition

CONSUMER = -1
_LONGEST_MS = 2**31 - 1


class Asked(NamedTuple):
    """What is asked of one partition."""

    partition: Partition | None
    number: int  # of the partition, as the client has it
    offset: int
    max_bytes: int
    leader_epoch: int = -1  # as the client knows it
    last_epoch: int = -1  # of what the client has fetched last
    start_offset: int = -1  # of the follower's log
    unknown: ErrorCode = ErrorCode.unknown_topic_or_partition  # why there is no partition


class Read(NamedTuple):
    """What one partition gives."""

    asked: Asked
    error: ErrorCode
    batches: Sequence[Batch] = ()
    high_watermark: int = -1
    start_offset: int = -1
    diverging: tuple[int, int] | None = None  # the epoch the logs still share, and its end
    max_bytes: int = _LONGEST_MS  # where the last batch is cut off
    last_stable_offset: int = -1
    aborted: Sequence[Aborted] | None = ()  # transactions with records here; None: not looked for

    @property
    def size(self) -> int:
        return min(self.max_bytes, sum([len(batch.data) for batch in self.batches]))

    def data(self) -> bytes:
        """The records, as they are sent."""
        parts = [batch.data for batch in self.batches]
        over = sum(map(len, parts)) - self.max_bytes
        if over > 0:
            parts[-1] = parts[-1][:-over]
        return b"".join(parts)


class Fetch:
    """One fetch, by a consumer or a follower, of partitions of this broker."""

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
        only_leader: bool = True,
        committed: bool = False,
    ) -> None:
        self.broker = broker
        self.asked = asked
        self.respond = respond
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.replica = replica
        self.only_leader = only_leader
        self.committed = committed  # only what transactions have committed

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
        known = [asked for asked in self.asked if asked.partition is not None]
        # A follower's own fetch waits for more than bytes: it is looked at as one that waits.
        if self.max_wait_ms <= 0 or not known or (self.replica != CONSUMER and self.is_enough()):
            self.finish()
            return None
        if self.replica == CONSUMER:
            reads = self._reads()
            if sum(read.size for read in reads) >= self.min_bytes or any(
                read.asked.partition is not None
                and (read.error is not ErrorCode.none or read.diverging is not None)
                for read in reads
            ):
                self.respond(reads)
                return None
        waiting = DelayedFetch(self)
        keys: list[Hashable] = []
        for asked in known:
            assert asked.partition is not None
            keys.append(asked.partition.key)
            if not (self.only_leader or asked.partition.is_led_by(self.broker.id)):
                keys.append((asked.partition.key, self.broker.id))  # what we have replicated
                asked.partition.read_at.add(self.broker.id)
        self.broker.cluster.purgatories.fetch.try_complete_else_watch(waiting, keys)
        return waiting

    def is_enough(self) -> bool:
        """Whether this can be answered before its time."""
        available = 0
        for asked in self.asked:
            partition = asked.partition
            if partition is None:
                continue
            if self._fault(asked) is not ErrorCode.none:
                return True  # cases A, B, C
            if self._diverging(asked) is not None:
                return True  # case D
            log = partition.log if self.only_leader else self._log(partition)
            if self.replica == CONSUMER:
                upto = log.last_stable_offset if self.committed else log.high_watermark
                if asked.offset > upto:
                    return True  # case C
            else:
                upto = log.end_offset
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
        self.respond(self._reads())

    def _reads(self) -> list[Read]:
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
        return reads

    def _log(self, partition: Partition) -> Log:
        """The log to read where that need not be the leader's: this broker's own."""
        return partition.logs[self.broker.id]

    def _fault(self, asked: Asked) -> ErrorCode:
        """What speaks against reading this at all."""
        partition = asked.partition
        if partition is None:
            return asked.unknown
        if partition.is_deleted:
            return ErrorCode.unknown_topic_or_partition
        try:
            partition.check_epoch(asked.leader_epoch)
        except Refused as refused:
            return refused.code
        if self.only_leader:
            if not partition.is_led_by(self.broker.id):
                return ErrorCode.not_leader_or_follower
        elif self.broker.id not in partition.logs:
            return ErrorCode.not_leader_or_follower
        log = partition.log if self.only_leader else self._log(partition)
        if not log.start_offset <= asked.offset <= log.end_offset:
            if self.replica != CONSUMER and self._diverging(asked) is not None:
                return ErrorCode.none
            return ErrorCode.offset_out_of_range
        if (
            self.replica == CONSUMER
            and asked.last_epoch >= 0
            and log.end_of_epoch(asked.last_epoch)[0] < 0
        ):
            return ErrorCode.offset_out_of_range
        return ErrorCode.none

    def _diverging(self, asked: Asked) -> tuple[int, int] | None:
        if asked.last_epoch < 0 or asked.partition is None:
            return None
        partition = asked.partition
        log = partition.log if self.only_leader else self._log(partition)
        epoch, end = log.end_of_epoch(asked.last_epoch)
        if epoch < asked.last_epoch or end < asked.offset:
            return epoch, end
        return None

    def _read(self, asked: Asked, max_bytes: int, at_least_one: bool) -> Read:
        error = self._fault(asked)
        partition = asked.partition
        if partition is None:
            return Read(asked, error)
        if error is not ErrorCode.none:
            return Read(asked, error, aborted=None)
        log = partition.log if self.only_leader else self._log(partition)
        diverging = self._diverging(asked)
        if diverging is not None:
            return Read(
                asked,
                ErrorCode.none,
                (),
                log.high_watermark,
                log.start_offset,
                diverging,
                last_stable_offset=log.last_stable_offset,
                aborted=None,
            )
        limit = min(max_bytes, asked.max_bytes)
        aborted: Sequence[Aborted] | None = () if self.committed else None
        stable = -1  # followers do not ask
        if self.replica == CONSUMER:
            stable = log.last_stable_offset
            upto = stable if self.committed else log.high_watermark
            batches = log.read(asked.offset, upto, limit, at_least_one, partial=True)
            if batches:
                limit = max(limit, len(batches[0].data))
                if self.committed:
                    aborted = list(log.isolation.aborted(asked.offset, batches[-1].next_offset))
        else:
            follower = partition.followers.get(self.replica)
            if follower is not None:
                follower.sent_high_watermark = log.high_watermark
            batches = log.read(asked.offset, log.end_offset, limit, at_least_one)
            limit = _LONGEST_MS
        return Read(
            asked,
            ErrorCode.none,
            batches,
            log.high_watermark,
            log.start_offset,
            None,
            limit,
            stable,
            aborted,
        )


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
    """Answer a consumer's fetch: of the partitions it names, or of those of its session."""
    broker = context.broker
    sessions = broker.fetch_sessions
    by_id = context.api_version >= _BY_ID
    session_id = getattr(request, "session_id", NO_SESSION)
    epoch = getattr(request, "session_epoch", FINAL)
    named = _named(request, context, by_id)
    isolation_level = getattr(request, "isolation_level", READ_UNCOMMITTED)
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        unread = [Read(one, ErrorCode.unknown_server_error) for one in named.values()]
        rows = _rows(zip(named, unread, strict=True), by_id, context.api_version)
        reply({"error_code": ErrorCode.unknown_server_error, "responses": rows})
        return
    session: Session | None = None
    is_full = epoch in (FULL, FINAL)
    if is_full:
        sessions.close(session_id)
        if epoch == FULL:
            session = sessions.new(by_id)
            if session is not None:
                session.take(named, ())
    else:
        try:
            session = sessions.next_of(session_id, epoch, by_id)
        except Refused as refused:
            reply({"error_code": refused.code, "responses": []})
            return
        session.take(named, _forgotten(request, by_id))
        if session.partitions:
            # A topic may have come or gone since the client has named it.
            named = {
                place: known.asked._replace(partition=_found(context, place)[0])
                for place, known in session.partitions.items()
            }
        else:
            sessions.close(session.id)
            session, named = None, {}
    places = list(named)

    def respond(reads: Sequence[Read]) -> None:
        told = [
            (place, read)
            for place, read in zip(places, reads, strict=True)
            if session is None or session.told(place, read) or is_full
        ]
        reply(
            {
                "session_id": NO_SESSION if session is None else session.id,
                "responses": _rows(told, by_id, context.api_version),
                "node_endpoints": _endpoints(reads, context),
            }
        )

    waiting = Fetch(
        broker,
        list(named.values()),
        respond,
        max_wait_ms=milliseconds(request.max_wait),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        only_leader=context.api_version < _FROM_FOLLOWERS,
        committed=isolation_level == READ_COMMITTED,
    ).start()
    if waiting is not None:
        reply.on_hang_up(waiting.cancel)


_FROM_FOLLOWERS = 11  # from this version on a consumer says where it is, and may read there
_BY_ID = 13
_TELLS_LEADER = 16


def _named(request: Any, context: Context, by_id: bool) -> dict[Place, Asked]:
    """The partitions that the request names, and what it asks of each."""
    named = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for one in topic.partitions:
            place = (name, one.partition)
            partition, unknown = _found(context, place)
            named[place] = Asked(
                partition,
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                getattr(one, "current_leader_epoch", -1),
                getattr(one, "last_fetched_epoch", -1),
                unknown=unknown,
            )
    return named


def _forgotten(request: Any, by_id: bool) -> list[Place]:
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _found(context: Context, place: Place) -> tuple[Partition | None, ErrorCode]:
    """The partition of this place, and what to say if there is none."""
    name, index = place
    metadata_cache = context.broker.metadata_cache
    if isinstance(name, str):
        topic = metadata_cache.topic(name)
    else:
        topic = metadata_cache.topic_by_id(name) if name is not None else None
        if topic is None:
            return None, ErrorCode.unknown_topic_id
    partition = topic.partition(index) if topic is not None else None
    return partition, ErrorCode.unknown_topic_or_partition


def _rows(reads: Iterable[tuple[Place, Read]], by_id: bool, version: int) -> list[dict[str, Any]]:
    """What the partitions give, topic by topic."""
    rows: dict[str | UUID | None, list[dict[str, Any]]] = {}
    for (topic, _), read in reads:
        rows.setdefault(topic, []).append(_fields(read, version))
    name = "topic_id" if by_id else "topic"
    return [{name: topic, "partitions": partitions} for topic, partitions in rows.items()]


def _fields(read: Read, version: int) -> dict[str, Any]:
    error = read.error
    partition = read.asked.partition
    fields: dict[str, Any] = {
        "partition_index": read.asked.number,
        "error_code": error,
        "high_watermark": read.high_watermark,
        "last_stable_offset": read.last_stable_offset,
        "log_start_offset": read.start_offset,
        "aborted_transactions": read.aborted
        and [
            {"producer_id": one.producer_id, "first_offset": one.first_offset}
            for one in read.aborted
        ],
        "records": read.data(),
    }
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        fields["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    if partition is not None and error in _LEADER_ELSEWHERE and version >= _TELLS_LEADER:
        fields["current_leader"] = {
            "leader_id": partition.leader,
            "leader_epoch": partition.leader_epoch,
        }
    return fields


_LEADER_ELSEWHERE = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def _endpoints(reads: Sequence[Read], context: Context) -> list[dict[str, Any]]:
    """Where the leaders are that were not found here."""
    leaders = {
        read.asked.partition.leader
        for read in reads
        if read.error in _LEADER_ELSEWHERE
        and read.asked.partition is not None
        and read.asked.partition.leader >= 0
    }
    cluster = context.broker.cluster
    return [cluster.broker(leader).endpoint(context) for leader in sorted(leaders)]
