"""A partition: its replicas' logs, which of them leads, which are in sync, what is committed.

    broker 1  leader    [ . . . . . . . . . . ]           end 10
    broker 2  in sync   [ . . . . . . . . ]               end 8     high watermark: 8, the lowest
    broker 3  lags      [ . . . . ]                       end 4       end of those in sync

A follower is in sync while it has been at the leader's end within `replica.lag.time.max.ms`; it
comes back when it reaches the high watermark. The watermark also waits for a follower that is
about to come back, or that would never get there; and it stands still while fewer replicas are
in sync than `min.insync.replicas` asks for.

Each change of leader begins an epoch. The new leader's log is right by definition; followers
find out where theirs parts from it by comparing epochs, and cut it off there. What waits for the
high watermark waits for that of one leader (leadership.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.leadership import Leadership
from sojourn.kafka.log.end_marker import EndMarker, marker_batch
from sojourn.kafka.log.log import Log
from sojourn.kafka.log.validator import validated
from sojourn.kafka.refusal import Refused
from sojourn.kafka.replica_fetcher import Fetcher
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.topic import Topic

_UNKNOWN = -1
_NEVER_MS = -(1 << 62)


class Follower:
    """What a leader knows of a follower, from its fetches."""

    __slots__ = (
        "caught_up_ms",
        "end_offset",
        "fetched_ms",
        "leader_end_when_fetched",
        "sent_high_watermark",
        "start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = _UNKNOWN
        self.start_offset = _UNKNOWN
        self.caught_up_ms = caught_up_ms  # when it was last at the leader's end
        self.fetched_ms = 0
        self.leader_end_when_fetched = 0
        self.sent_high_watermark = _UNKNOWN


class Appended(NamedTuple):
    """Where a batch came to stand."""

    base_offset: int
    next_offset: int
    append_ms: int  # -1 unless the topic keeps times of append
    log_start_offset: int


class Partition:
    """One partition of a topic. Called with the agenda held."""

    def __init__(
        self, topic: Topic, index: int, replicas: tuple[int, ...], cluster: Cluster
    ) -> None:
        self.topic = topic
        self.index = index
        self.settings = topic.settings  # above those of the leader's broker
        #: What requests that wait for this partition watch.
        self.key = f"{topic.name}/{index}"
        self.replicas = replicas
        #: Replicas that come and go while the partition is moved; `replicas` has them too.
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.moved_from: tuple[int, ...] = ()  # what they were when the move began
        self.isr = set(replicas)
        self.leader = -1
        self.leader_epoch = -1
        self.leadership: Leadership | None = None  # while somebody leads
        self.read_at: set[int] = set()  # followers at which consumers have waited
        self.is_deleted = False
        self.logs = {broker_id: Log() for broker_id in replicas}
        self.followers: dict[int, Follower] = {}
        self.fetchers = {broker_id: Fetcher(self, broker_id, cluster) for broker_id in replicas}
        self.log = self.logs[replicas[0]]  # the leader's, once there is one
        self._cluster = cluster
        self._epoch_start = 0
        self._has_news = False
        self._has_moved = False

    def __repr__(self) -> str:
        return f"<Partition {self.key} led by {self.leader}, epoch {self.leader_epoch}>"

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def min_insync(self) -> int:
        return min(self.settings.number("min.insync.replicas"), len(self.replicas))

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether as many are in sync as `min.insync.replicas` asks for."""
        return len(self.isr) >= self.min_insync

    @property
    def is_reassigned(self) -> bool:
        """Whether its replicas are being moved."""
        return bool(self.adding or self.removing)

    def offline_replicas(self) -> list[int]:
        return [r for r in self.replicas if not self._cluster.broker(r).is_alive]

    def is_led_by(self, broker_id: int) -> bool:
        return self.leader == broker_id and not self.is_deleted

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client that knows an older or newer leader than this one; -1 knows none."""
        if epoch == _UNKNOWN or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise Refused(ErrorCode.fenced_leader_epoch)
        raise Refused(ErrorCode.unknown_leader_epoch)

    # The leader.

    def append(self, batch: Batch, acks: int) -> Appended:
        """Take a producer's batch, or say where it stands already; or Refused."""
        log = self.log
        if acks == -1:
            self._check_in_sync()  # also for a retry of what stands here, as in Kafka
        wall_ms = self._cluster.wall_ms()
        batch = validated(batch, self.settings, wall_ms)
        if batch.producer_id >= 0:
            earlier = log.producers.check(batch)
            if earlier is not None:
                return Appended(
                    earlier.base_offset,
                    earlier.next_offset,
                    earlier.max_timestamp,  # whatever time the topic keeps
                    log.start_offset,
                )
        return self._append(batch, wall_ms)

    def append_marker(self, producer_id: int, producer_epoch: int, marker: EndMarker) -> Appended:
        """Write down the end of a producer's transaction; or Refused."""
        self._check_in_sync()
        self.log.producers.check_marker(producer_id, producer_epoch, marker)
        wall_ms = self._cluster.wall_ms()
        return self._append(marker_batch(producer_id, producer_epoch, marker, wall_ms), wall_ms)

    def _check_in_sync(self) -> None:
        if not self.has_enough_in_sync:
            raise Refused(
                ErrorCode.not_enough_replicas,
                f"{len(self.isr)} replicas of {self.key} are in sync, {self.min_insync} are needed",
            )

    def _append(self, batch: Batch, wall_ms: int) -> Appended:
        log = self.log
        now_ms = self._cluster.now_ms()
        for follower in self.followers.values():
            if follower.end_offset == log.end_offset:
                follower.caught_up_ms = now_ms  # it is, until this very moment
        by_append_time = self.settings.text("message.timestamp.type") == "LogAppendTime"
        append_ms = wall_ms if by_append_time else None
        placed = batch.placed(log.end_offset, self.leader_epoch, append_ms)
        log.append(placed)
        self._advance_high_watermark()
        self.news()
        return Appended(
            placed.base_offset,
            placed.next_offset,
            -1 if append_ms is None else append_ms,
            log.start_offset,
        )

    def follower_fetched(self, broker_id: int, offset: int, start_offset: int) -> None:
        """A follower asks for what comes after `offset`: so it has all before."""
        follower = self.followers.get(broker_id)
        if follower is None:
            return
        now_ms = self._cluster.now_ms()
        log = self.log
        if offset >= log.end_offset:
            follower.caught_up_ms = max(follower.caught_up_ms, now_ms)
        elif offset >= follower.leader_end_when_fetched:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.fetched_ms)
        follower.leader_end_when_fetched = log.end_offset
        follower.fetched_ms = now_ms
        moved = follower.start_offset != start_offset
        follower.start_offset = start_offset
        if follower.end_offset != offset or broker_id not in self.isr:
            follower.end_offset = offset
            if (
                broker_id not in self.isr
                and offset >= log.high_watermark
                and offset >= self._epoch_start
            ):
                self.isr.add(broker_id)
                self._cluster.controller.changed()
                moved = True
                if self.is_reassigned:
                    self._cluster.agenda.defer(
                        lambda: self._cluster.controller.complete_reassignment(self)
                    )
            self._advance_high_watermark()
        if moved:
            self.moved()

    def shrink_isr(self) -> None:
        """Let go of followers that have not been at our end for too long."""
        if self.leader < 0:
            return
        now_ms = self._cluster.now_ms()
        lag_max_ms = self._cluster.settings.number("replica.lag.time.max.ms")
        late = {
            broker_id
            for broker_id, follower in self.followers.items()
            if broker_id in self.isr
            and follower.end_offset != self.log.end_offset
            and now_ms - follower.caught_up_ms > lag_max_ms
        }
        if late:
            self.isr -= late
            self._cluster.controller.changed()
            self._advance_high_watermark()
            self.moved()

    def delete_records(self, offset: int) -> int:
        """Delete what comes before `offset`, -1 for all that is committed; say up to where."""
        log = self.log
        if "delete" not in self.settings.text("cleanup.policy"):
            raise Refused(
                ErrorCode.policy_violation,
                f"records of {self.topic.name} go by compaction, not by deletion",
            )
        if offset == -1:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            raise Refused(
                ErrorCode.offset_out_of_range,
                f"offset {offset} is not between 0 and the high watermark {log.high_watermark}",
            )
        self.delete_before(offset)
        return offset

    def delete_before(self, offset: int) -> None:
        if offset > self.log.start_offset:
            self.log.advance_start(offset)
            self.moved()

    def retain(self) -> None:
        """Delete what has been kept for long enough, by the topic's settings."""
        settings = self.settings
        keep_ms, keep_bytes = settings.number("retention.ms"), settings.number("retention.bytes")
        if self.leader >= 0 and "delete" in settings.text("cleanup.policy"):
            self.delete_before(
                self.log.outlived(
                    self._cluster.wall_ms() - keep_ms if keep_ms >= 0 else None,
                    keep_bytes if keep_bytes >= 0 else None,
                )
            )

    def expire_producers(self) -> None:
        """Forget producers that have written nothing for `producer.id.expiration.ms`."""
        keep_ms = self._cluster.settings.number("producer.id.expiration.ms")
        for log in self.logs.values():
            log.producers.expire(self._cluster.wall_ms() - keep_ms)

    def low_watermark(self) -> int:
        """Where the logs of all replicas that are alive have begun by now."""
        lowest = self.log.start_offset
        for broker_id, follower in self.followers.items():
            if self._cluster.broker(broker_id).is_alive:
                lowest = min(lowest, follower.start_offset)
        return lowest

    def latest_offset(self, committed: bool) -> int:
        """Up to where consumers read, once this leader knows that it is right; or Refused.

        `committed`: those that read only what transactions have committed.
        """
        log = self.log
        if log.high_watermark < self._epoch_start:
            raise Refused(ErrorCode.offset_not_available, "the leader is new; ask again")
        return log.last_stable_offset if committed else log.high_watermark

    def _advance_high_watermark(self) -> None:
        leadership = self.leadership
        if leadership is None or not self.has_enough_in_sync:
            return
        log = self.log
        lowest = log.end_offset
        now_ms = -1
        for broker_id, follower in self.followers.items():
            if follower.end_offset >= lowest:
                continue
            if broker_id not in self.isr:
                if now_ms < 0:
                    now_ms = self._cluster.now_ms()
                    lag_max_ms = self._cluster.settings.number("replica.lag.time.max.ms")
                is_alive = self._cluster.broker(broker_id).is_alive
                if not is_alive or now_ms - follower.caught_up_ms > lag_max_ms:
                    continue  # it is far from coming back
            lowest = follower.end_offset
        if lowest > log.high_watermark:
            log.high_watermark = leadership.high_watermark = lowest
            self.moved()

    # Changes of leader, by the controller.

    def lead(self, broker_id: int) -> None:
        """From now on this broker leads; -1 for nobody."""
        if broker_id != self.leader:
            self._end_leadership(ErrorCode.not_leader_or_follower)
        self.leader = broker_id
        self.leader_epoch += 1
        for fetcher in self.fetchers.values():
            fetcher.stop()
        if broker_id >= 0:
            now_ms = self._cluster.now_ms()
            self.settings = self.topic.settings.over(self._cluster.broker(broker_id).settings)
            self.log = self.logs[broker_id]
            self._epoch_start = self.log.end_offset
            self.log.begin_epoch(self.leader_epoch, self._epoch_start)
            if self.leadership is None:
                self.leadership = Leadership(
                    # By the topic's id: another topic may come to have the same name.
                    f"{self.topic.id}/{self.index}@{self.leader_epoch}",
                    self.log.high_watermark,
                    self._cluster.purgatories.produce,
                )
            # Those in sync have a while to say where they are; the others have to come back.
            self.followers = {
                other: Follower(now_ms if other in self.isr else _NEVER_MS)
                for other in self.replicas
                if other != broker_id
            }
            self._advance_high_watermark()
            for other in self.followers:
                self.start_fetcher(other)
        self.moved()

    def _end_leadership(self, why: ErrorCode) -> None:
        if self.leadership is not None:
            self.leadership.ended = why
            self._cluster.agenda.defer(self.leadership.tell)
            self.leadership = None

    def start_fetcher(self, broker_id: int) -> None:
        """Have this replica follow the leader, if it is alive and there is one to follow."""
        if (
            self.leader >= 0
            and broker_id != self.leader
            and self._cluster.broker(broker_id).is_alive
            and not self.is_deleted
        ):
            self.fetchers[broker_id].start()

    def broker_gone(self, broker_id: int) -> None:
        """A replica's broker has stopped. The last one in sync stays so: it has the records."""
        self.fetchers[broker_id].stop()
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr.discard(broker_id)
            if self.leader != broker_id:
                self._advance_high_watermark()
        self.moved()

    # Moves, by the controller.

    def begin_reassignment(self, target: tuple[int, ...]) -> None:
        """Have the replicas that are new follow, beside those that there are."""
        if not self.is_reassigned:
            self.moved_from = self.replicas
        now = set(self.replicas)
        self.adding = tuple(r for r in target if r not in self.moved_from)
        self.removing = tuple(r for r in self.replicas if r not in target)
        self.replicas = (*target, *self.removing)
        for broker_id in target:
            if broker_id not in now:
                self.logs[broker_id] = Log()
                self.fetchers[broker_id] = Fetcher(self, broker_id, self._cluster)
                self.followers[broker_id] = Follower(_NEVER_MS)
                self.start_fetcher(broker_id)

    def end_reassignment(self, replicas: tuple[int, ...]) -> None:
        """Keep these replicas, and let go of the others."""
        leaving = set(self.replicas) - set(replicas)
        self.replicas = replicas
        self.adding = self.removing = ()
        self.isr -= leaving
        for broker_id in leaving:
            self.fetchers.pop(broker_id).stop()
            self.followers.pop(broker_id, None)
            del self.logs[broker_id]

    def reconfigured(self) -> None:
        """The topic's settings have changed."""
        if self.leader >= 0:
            self._advance_high_watermark()
        self.moved()

    def delete(self) -> None:
        """The topic is gone."""
        self.is_deleted = True
        self._end_leadership(ErrorCode.unknown_topic_or_partition)
        for fetcher in self.fetchers.values():
            fetcher.stop()
        self.moved()

    # News for those who wait.

    def news(self) -> None:
        """Something was appended."""
        if not self._has_news:
            self._has_news = True
            self._cluster.agenda.defer(self._tell)

    def moved(self) -> None:
        """A watermark, the leader or who is in sync has changed."""
        self._has_moved = True
        self.news()

    def _tell(self) -> None:
        purgatories = self._cluster.purgatories
        has_moved, self._has_news, self._has_moved = self._has_moved, False, False
        if has_moved:
            if self.leadership is not None:
                self.leadership.tell()
            purgatories.delete_records.check_and_complete(self.key)
            if self._cluster.transactions.ending:
                purgatories.transaction_marker.check_and_complete(self.key)
        purgatories.fetch.check_and_complete(self.key)
