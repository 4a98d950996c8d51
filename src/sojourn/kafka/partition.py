"""A partition: its replicas' logs, which of them leads, which are in sync, the high watermark.

    broker 1  leader    [ . . . . . . . . . . ]           end 10
    broker 2  in sync   [ . . . . . . . . ]               end 8     high watermark: 8, the lowest
    broker 3  lags      [ . . . . ]                       end 4       end of those in sync

A follower leaves the replicas in sync when it was not caught up for `replica.lag.time.max.ms`
(follower.py). It comes back when it reaches the high watermark. The watermark also waits for a
follower that was caught up so recently and is about to come back, which otherwise might never
reach it. It does not move while fewer replicas are in sync than `min.insync.replicas`.

Each change of leader begins an epoch. The new leader's log counts; followers compare epochs to
find where theirs diverges, and truncate it there. A request that waits for the high watermark waits
for that of one leader (leadership.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sojourn.kafka.follower import UNKNOWN_OFFSET, Follower
from sojourn.kafka.leadership import Leadership
from sojourn.kafka.log.cleaner import compact
from sojourn.kafka.log.end_marker import EndMarker, marker_batch
from sojourn.kafka.log.log import Log
from sojourn.kafka.log.validator import validate
from sojourn.kafka.partition_signals import PartitionSignals
from sojourn.kafka.refusal import Refused
from sojourn.kafka.replica_fetcher import ReplicaFetcher
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.log.batch import Batch
    from sojourn.kafka.topic import Topic


class Appended(NamedTuple):
    """Where a batch was appended."""

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
        #: Replicas that a reassignment adds and removes; `replicas` has both.
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.original_replicas: tuple[int, ...] = ()  # before the reassignment
        self.isr = set(replicas)
        self.leader = -1
        self.leader_epoch = -1
        self.leadership: Leadership | None = None  # while the partition has a leader
        self.read_at: set[int] = set()  # followers from which consumers read
        self.is_deleted = False
        self.logs = {broker_id: Log() for broker_id in replicas}
        self.followers: dict[int, Follower] = {}
        self.fetchers = {
            broker_id: ReplicaFetcher(self, broker_id, cluster) for broker_id in replicas
        }
        self.log = self.logs[replicas[0]]  # the leader's, once there is one
        self._cluster = cluster
        self._epoch_start = 0
        self.signals = PartitionSignals(self, cluster)

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
    def is_reassigning(self) -> bool:
        """Whether its replicas are being reassigned."""
        return bool(self.adding or self.removing)

    def offline_replicas(self) -> list[int]:
        return [r for r in self.replicas if not self._cluster.broker(r).is_alive]

    def is_led_by(self, broker_id: int) -> bool:
        return self.leader == broker_id and not self.is_deleted

    def check_epoch(self, epoch: int) -> None:
        """Raise Refused if the client has an older or newer leader epoch; -1 is not checked."""
        if epoch == UNKNOWN_OFFSET or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise Refused(ErrorCode.fenced_leader_epoch)
        raise Refused(ErrorCode.unknown_leader_epoch)

    # The leader's log.

    def append(self, batch: Batch, acks: int) -> Appended:
        """Append a producer's batch, or find the one that it repeats; or Refused."""
        log = self.log
        if acks == -1:
            self._check_in_sync()  # also for a retry of an appended batch, as in Kafka
        wall_ms = self._cluster.wall_ms()
        batch = validate(batch, self.settings, wall_ms)
        if batch.producer_id >= 0:
            earlier = log.producers.check(batch)
            if earlier is not None:
                return Appended(
                    earlier.base_offset,
                    earlier.next_offset,
                    earlier.max_timestamp,  # whichever timestamp type the topic has
                    log.start_offset,
                )
        return self._append(batch, wall_ms)

    def append_marker(self, producer_id: int, producer_epoch: int, marker: EndMarker) -> Appended:
        """Append the end of a producer's transaction; or Refused."""
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
            follower.note_append(log.end_offset, now_ms)
        by_append_time = self.settings.text("message.timestamp.type") == "LogAppendTime"
        append_ms = wall_ms if by_append_time else None
        placed = batch.placed(log.end_offset, self.leader_epoch, append_ms)
        log.append(placed)
        self._advance_high_watermark()
        self.signals.after_append()
        return Appended(
            placed.base_offset,
            placed.next_offset,
            -1 if append_ms is None else append_ms,
            log.start_offset,
        )

    def on_follower_fetch(self, broker_id: int, offset: int, start_offset: int) -> None:
        """Note that a follower asks for what comes after `offset`: it has all before."""
        follower = self.followers.get(broker_id)
        if follower is None:
            return
        log = self.log
        follower.note_fetch(offset, log.end_offset, self._cluster.now_ms())
        has_changed = follower.start_offset != start_offset
        follower.start_offset = start_offset
        if follower.end_offset != offset or broker_id not in self.isr:
            follower.end_offset = offset
            if (
                broker_id not in self.isr
                and offset >= log.high_watermark
                and offset >= self._epoch_start
            ):
                self.isr.add(broker_id)
                self._cluster.controller.signal_change()
                has_changed = True
                if self.is_reassigning:
                    self._cluster.agenda.defer(
                        lambda: self._cluster.controller.complete_reassignment(self)
                    )
            self._advance_high_watermark()
        if has_changed:
            self.signals.after_change()

    def shrink_isr(self) -> None:
        """Remove followers from the replicas in sync that were not caught up for too long."""
        if self.leader < 0:
            return
        now_ms = self._cluster.now_ms()
        lag_max_ms = self._cluster.settings.number("replica.lag.time.max.ms")
        lagging = {
            broker_id
            for broker_id, follower in self.followers.items()
            if broker_id in self.isr
            and follower.end_offset != self.log.end_offset
            and follower.has_lagged(lag_max_ms, now_ms)
        }
        if lagging:
            self.isr -= lagging
            self._cluster.controller.signal_change()
            self._advance_high_watermark()
            self.signals.after_change()

    def delete_records(self, offset: int) -> int:
        """Delete the records before `offset`, -1 for the high watermark; return that offset."""
        log = self.log
        if "delete" not in self.settings.text("cleanup.policy"):
            raise Refused(
                ErrorCode.policy_violation,
                f"records of {self.topic.name} cannot be deleted: its cleanup.policy is compact",
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
            self.signals.after_change()

    def apply_retention(self) -> None:
        """Delete what the topic's retention.ms and retention.bytes do not keep."""
        settings = self.settings
        keep_ms, keep_bytes = settings.number("retention.ms"), settings.number("retention.bytes")
        if self.leader >= 0 and "delete" in settings.text("cleanup.policy"):
            self.delete_before(
                self.log.first_retained(
                    self._cluster.wall_ms() - keep_ms if keep_ms >= 0 else None,
                    keep_bytes if keep_bytes >= 0 else None,
                )
            )

    def compact(self, at_once: bool = False) -> None:
        """Compact each replica's log, if the topic is compacted and enough is dirty (cleaner.py).

        With `at_once` however little is dirty.
        """
        if "compact" in self.settings.text("cleanup.policy"):
            for broker_id, log in self.logs.items():
                is_dirty = log.end_offset > log.cleaned_offset
                if (is_dirty or at_once) and self._cluster.broker(broker_id).is_alive:
                    compact(log, self.settings, self._cluster.wall_ms(), at_once)

    def expire_producers(self) -> None:
        """Remove producers that have written nothing for `producer.id.expiration.ms`."""
        keep_ms = self._cluster.settings.number("producer.id.expiration.ms")
        for log in self.logs.values():
            log.producers.expire(self._cluster.wall_ms() - keep_ms)

    def low_watermark(self) -> int:
        """The lowest start offset of the logs on brokers that are alive."""
        lowest = self.log.start_offset
        for broker_id, follower in self.followers.items():
            if self._cluster.broker(broker_id).is_alive:
                lowest = min(lowest, follower.start_offset)
        return lowest

    def latest_offset(self, committed: bool) -> int:
        """The end of what consumers read; or Refused while a new leader does not know it yet.

        `committed`: for consumers with read_committed.
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
                if not is_alive or follower.has_lagged(lag_max_ms, now_ms):
                    continue  # it is not about to come back
            lowest = follower.end_offset
        if lowest > log.high_watermark:
            log.high_watermark = leadership.high_watermark = lowest
            self.signals.after_change()

    # Changes of leader, by the controller.

    def set_leader(self, broker_id: int) -> None:
        """Make this broker the leader, and begin an epoch; -1 for no leader."""
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
                    # By the topic's id: a later topic may have the same name.
                    f"{self.topic.id}/{self.index}@{self.leader_epoch}",
                    self.log.high_watermark,
                    self._cluster.purgatories.produce,
                )
            # Those in sync have `replica.lag.time.max.ms` to fetch; the others have to come back.
            self.followers = {
                other: Follower(now_ms) if other in self.isr else Follower()
                for other in self.replicas
                if other != broker_id
            }
            self._advance_high_watermark()
            for other in self.followers:
                self.start_fetcher(other)
        self.signals.after_change()

    def _end_leadership(self, error: ErrorCode) -> None:
        if self.leadership is not None:
            self.leadership.end_error = error
            self._cluster.agenda.defer(self.leadership.signal)
            self.leadership = None

    def start_fetcher(self, broker_id: int) -> None:
        """Start following the leader, if there is one and the replica's broker is alive."""
        if (
            self.leader >= 0
            and broker_id != self.leader
            and self._cluster.broker(broker_id).is_alive
            and not self.is_deleted
        ):
            self.fetchers[broker_id].start()

    def on_broker_stopped(self, broker_id: int) -> None:
        """Remove a stopped broker from the replicas in sync. The last one in sync stays: it has
        the records."""
        self.fetchers[broker_id].stop()
        if broker_id in self.isr and len(self.isr) > 1:
            self.isr.discard(broker_id)
            if self.leader != broker_id:
                self._advance_high_watermark()
        self.signals.after_change()

    # Reassignments, by the controller.

    def begin_reassignment(self, target: tuple[int, ...]) -> None:
        """Start following on the new replicas, beside the present ones."""
        if not self.is_reassigning:
            self.original_replicas = self.replicas
        present = set(self.replicas)
        self.adding = tuple(r for r in target if r not in self.original_replicas)
        self.removing = tuple(r for r in self.replicas if r not in target)
        self.replicas = (*target, *self.removing)
        for broker_id in target:
            if broker_id not in present:
                self.logs[broker_id] = Log()
                self.fetchers[broker_id] = ReplicaFetcher(self, broker_id, self._cluster)
                self.followers[broker_id] = Follower()
                self.start_fetcher(broker_id)

    def end_reassignment(self, replicas: tuple[int, ...]) -> None:
        """Keep these replicas, and remove the others."""
        leaving = set(self.replicas) - set(replicas)
        self.replicas = replicas
        self.adding = self.removing = ()
        self.isr -= leaving
        for broker_id in leaving:
            self.fetchers.pop(broker_id).stop()
            self.followers.pop(broker_id, None)
            del self.logs[broker_id]

    def on_settings_changed(self) -> None:
        """Apply the topic's changed settings."""
        if self.leader >= 0:
            self._advance_high_watermark()
        self.signals.after_change()

    def delete(self) -> None:
        """Stop everything: the topic is deleted."""
        self.is_deleted = True
        self._end_leadership(ErrorCode.unknown_topic_or_partition)
        for fetcher in self.fetchers.values():
            fetcher.stop()
        self.signals.after_change()
