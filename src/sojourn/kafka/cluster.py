"""A Kafka cluster in this process: real sockets, real replication, a clock that a test can move.

with Cluster(brokers=3) as cluster:
    cluster.create_topic("t", partitions=6, replication_factor=3)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers})
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from zlib import crc32

from sojourn.core.clock import ManualClock, SystemClock
from sojourn.core.millis import checked_count
from sojourn.core.timer import Timer
from sojourn.errors import Closed, OutOfRange, TimedOut, WrongType
from sojourn.kafka.agenda import Agenda
from sojourn.kafka.broker import Broker, advertised_hosts
from sojourn.kafka.controller import Controller
from sojourn.kafka.faults import Faults
from sojourn.kafka.features import Features
from sojourn.kafka.groups import Groups
from sojourn.kafka.handlers import handlers
from sojourn.kafka.housekeeping import start_housekeeping
from sojourn.kafka.log.record import Record, RecordLike, batch_of, record_of, records_in
from sojourn.kafka.network.listener import Listener
from sojourn.kafka.partition import Partition
from sojourn.kafka.purgatories import Purgatories
from sojourn.kafka.quota import MutationQuota
from sojourn.kafka.refusal import Refused
from sojourn.kafka.security.security import Security
from sojourn.kafka.settings.definitions import BROKER
from sojourn.kafka.settings.layers import (
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    Layer,
    Settings,
    static_layer,
)
from sojourn.kafka.topic import name_error
from sojourn.kafka.transactions import TransactionCoordinator
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.core.clock import Clock
    from sojourn.kafka.replica_fetcher import ReplicaFetcher
    from sojourn.kafka.security.users import Users
    from sojourn.kafka.topic import Topic

_PORT_MAX = 65_535
_METADATA_DELAY_MS = 5
_CHECK_EVERY_S = 0.01


class Cluster:
    """A cluster of `brokers` brokers, on `host` and ports chosen by the system, or from `port` up.

    Their ids count from 1, unless `brokers` lists them: `Cluster(brokers=[0, 1, 2])`.
    `clock` drives every timeout of the brokers: the system's clock, or a `ManualClock` that the
    test moves. `config` holds broker settings by their Kafka names. `security` is PLAINTEXT, SSL,
    SASL_PLAINTEXT or SASL_SSL; `users` are names and passwords for SASL. Every method may be
    called from any thread.
    """

    def __init__(
        self,
        brokers: int | Sequence[int] = 1,
        *,
        clock: Clock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, object] | None = None,
        security: str = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
    ) -> None:
        broker_ids = _broker_ids(brokers)
        if not isinstance(host, str):
            raise WrongType(f"host must be a name or an address, got {host!r}")
        port = checked_count(
            port,
            "port",
            0,
            _PORT_MAX + 1 - len(broker_ids),
            "0 lets the system choose; else each broker takes the next port",
        )
        self.clock: Any = SystemClock() if clock is None else clock
        self._wall_offset_ms = int(time.time() * 1000) - self.now_ms()
        static, altered = static_layer(config), Layer(DYNAMIC_DEFAULT_BROKER_CONFIG)
        self.settings = Settings(BROKER, [altered, static])
        self.id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.security = Security(
            security,
            users,
            static.values.get("sasl.enabled.mechanisms", ""),
            [host, *advertised_hosts(static.values.get("advertised.listeners", ""))],
        )
        self.agenda = Agenda()
        self.timer = Timer(self.clock, name="kafka")
        self.purgatories = Purgatories(self.timer)
        self._listener = Listener(host, self.settings.number("socket.request.max.bytes"))
        self._is_closed = False
        self.brokers: list[Broker] = []
        self._by_id: dict[int, Broker] = {}
        self.controller = Controller(self)
        self.features = Features()
        self.groups = Groups(self)
        self.transactions = TransactionCoordinator(self)
        self.mutations = MutationQuota(self)
        #: Scripted faults.
        self.faults = Faults(self)
        try:
            for n, broker_id in enumerate(broker_ids):
                broker = Broker(
                    broker_id,
                    self,
                    self._listener,
                    port + n if port else 0,
                    Settings(
                        BROKER, [Layer(DYNAMIC_BROKER_CONFIG), altered, static_layer(None), static]
                    ),
                )
                self.brokers.append(broker)
                self._by_id[broker_id] = broker
            for broker in self.brokers:
                broker.register(handlers(broker))
        except BaseException:
            self.close()
            raise
        for broker in self.brokers:
            self.start_broker(broker.id)
        start_housekeeping(self, lambda: self._is_closed)

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: host:port of every broker, separated by commas."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers)

    @property
    def users(self) -> Users | None:
        """Names and passwords, to be changed while it runs; None without SASL."""
        return self.security.users if self.security.has_sasl else None

    @property
    def ca_file(self) -> str:
        """A file with the CA certificate that clients have to trust; with TLS only."""
        if self.security.certificates is None:
            raise OutOfRange("there are no certificates without TLS; use security='SSL'")
        return self.security.certificates.ca_file

    def now_ms(self) -> int:
        """The time on the cluster's clock; its zero means nothing."""
        return int(self.clock.now_ns()) // 1_000_000

    def wall_ms(self) -> int:
        """The time of day: the wall clock's at the start, moved on by the cluster's clock."""
        return self.now_ms() + self._wall_offset_ms

    @property
    def metadata_delay_ms(self) -> int:
        """How much later each broker learns of a new topic than the one before it."""
        delay_ms = self.settings.number("sojourn.metadata.delay.ms")
        if delay_ms >= 0:
            return delay_ms
        return 0 if isinstance(self.clock, ManualClock) else _METADATA_DELAY_MS

    def broker(self, broker_id: int) -> Broker:
        """The broker of this id."""
        broker = self._by_id.get(broker_id)
        if broker is None:
            ids = ", ".join(str(broker.id) for broker in self.brokers)
            raise OutOfRange(f"there is no broker {broker_id}, only {ids}")
        return broker

    def coordinator(self, key: str) -> Broker | None:
        """The broker that coordinates this group or transactional id; None while none is alive.

        Chosen by a hash of the id; if that broker is stopped, the next one that is alive.
        """
        start = crc32(key.encode()) % len(self.brokers)
        for broker in self.brokers[start:] + self.brokers[:start]:
            if broker.is_alive:
                return broker
        return None

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> Topic:
        """Create a topic; every broker knows it when this returns."""
        with self._open():
            if name in self.controller.topics:
                raise Refused(ErrorCode.topic_already_exists, name)
            error = name_error(name)
            if error:
                raise Refused(ErrorCode.invalid_topic_exception, error)
            return self.controller.add_topic(
                name,
                self.controller.place(partitions, replication_factor),
                self.controller.topic_settings(config),
            )

    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records."""
        with self._open():
            topic = self.controller.topics.get(name)
            if topic is None:
                raise Refused(ErrorCode.unknown_topic_or_partition, name)
            self.controller.delete_topic(topic)

    def partition(self, topic: str, index: int) -> Partition:
        """A partition: its leader, replicas in sync, watermarks and logs."""
        partition = self.controller.partition(topic, index)
        if partition is None:
            raise Refused(ErrorCode.unknown_topic_or_partition, f"{topic}/{index}")
        return partition

    # Records, without a client.

    def append(self, topic: str, records: Iterable[RecordLike], partition: int = 0) -> list[Record]:
        """Append to the partition as a producer would; return the records with their offsets.

        A record is a value, `(key, value)` or a `Record`; a string is written as UTF-8. It is
        committed at once, unless followers in sync are paused or lag.
        """
        batch = batch_of([record_of(one) for one in records], self.wall_ms())
        with self._open():
            target = self.partition(topic, partition)
            if target.leader < 0:
                raise Refused(ErrorCode.leader_not_available, f"{target.key} has no leader")
            base = target.append(batch, acks=1).base_offset
            (placed,) = target.log.read(base, target.end_offset, 0, at_least_one=True)
        return list(records_in(placed, topic, partition))

    def records(
        self, topic: str, partition: int | None = None, *, committed: bool = True
    ) -> list[Record]:
        """The records of the topic, or of one partition, in the order of their offsets.

        Only replicated ones, and none of open or aborted transactions; with `committed=False`
        all that the leader has.
        """
        with self.agenda:
            return [
                record
                for one in self._partitions(topic, partition)
                for batch in one.log.data_batches(committed)
                for record in records_in(batch, topic, one.index)
                if record.offset >= one.log.start_offset
            ]

    def compact(self, topic: str, partition: int | None = None) -> None:
        """Compact the topic, or one partition, now, however little there is to clean.

        `min.compaction.lag.ms` and `delete.retention.ms` are honoured, on the cluster's clock.
        """
        with self._open():
            partitions = self._partitions(topic, partition)
            if "compact" not in partitions[0].settings.text("cleanup.policy"):
                raise Refused(
                    ErrorCode.policy_violation,
                    f"{topic} is not compacted: its cleanup.policy has no compact",
                )
            for one in partitions:
                one.compact(at_once=True)

    def _partitions(self, topic: str, partition: int | None) -> list[Partition]:
        if topic not in self.controller.topics:
            raise Refused(ErrorCode.unknown_topic_or_partition, topic)
        if partition is None:
            return self.controller.topics[topic].partitions
        return [self.partition(topic, partition)]

    def wait_until(
        self,
        condition: Callable[[], object],
        timeout_s: float = 10.0,
        what: str = "the condition",
    ) -> None:
        """Wait until the condition holds, at most `timeout_s` of real time; or TimedOut.

        It is checked whenever something changes at the brokers, and every 10 ms for what happens
        elsewhere. A step of the brokers that it holds in the middle of is over when this returns: a
        request that is seen to wait has its timeout. In a coroutine: `await
        asyncio.to_thread(cluster.wait_until, …)`.
        """
        deadline_s = time.monotonic() + timeout_s
        changed = threading.Event()
        with self.agenda.notifying(changed.set):  # on leaving it waits for the agenda
            while not condition():
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimedOut(
                        f"{what} did not hold within {timeout_s} s; "
                        f"{self.purgatories!r}, {self.faults!r}"
                    )
                changed.wait(min(left_s, _CHECK_EVERY_S))
                changed.clear()

    def leader(self, topic: str, index: int) -> int:
        """The id of the broker that leads the partition; -1 if none does."""
        return self.partition(topic, index).leader

    # Faults.

    def pause_follower(self, broker_id: int, topic: str, index: int) -> None:
        """Stop this replica from fetching until it is resumed, also after a change of leader.

        It leaves the replicas in sync after `replica.lag.time.max.ms` with something to fetch.
        """
        with self._open():
            fetcher = self._fetcher(broker_id, topic, index)
            fetcher.is_paused = True
            fetcher.stop()

    def resume(self, broker_id: int, topic: str, index: int) -> None:
        """Let a follower fetch again, without lag."""
        with self._open():
            fetcher = self._fetcher(broker_id, topic, index)
            fetcher.is_paused = False
            fetcher.lag_ms = 0
            self.partition(topic, index).start_fetcher(broker_id)

    def lag(self, broker_id: int, topic: str, index: int, ms: int) -> None:
        """Delay each fetch of a follower by `ms` of the cluster's time."""
        with self._open():
            fetcher = self._fetcher(broker_id, topic, index)
            fetcher.lag_ms = ms
            self.partition(topic, index).start_fetcher(broker_id)

    def move_leader(self, topic: str, index: int, broker_id: int) -> None:
        """Make another replica the leader, which must be alive and in sync."""
        with self._open():
            self.controller.move_leader(self.partition(topic, index), broker_id)

    def elect(self, topic: str, index: int) -> int:
        """Hold an election, which the preferred replica wins if it can; return the leader's id."""
        with self._open():
            partition = self.partition(topic, index)
            self.controller.elect(partition)
            return partition.leader

    def pause_elections(self) -> None:
        """Elect no leaders: new partitions, and those whose leader stops, have none."""
        with self._open():
            self.controller.holds_elections = False

    def resume_elections(self) -> None:
        """Elect leaders again, also for partitions that have none."""
        with self._open():
            self.controller.resume_elections()

    def pause_metadata(self, broker_id: int) -> None:
        """Stop this broker from learning of new topics."""
        with self._open():
            self.broker(broker_id).metadata_cache.pause()

    def resume_metadata(self, broker_id: int) -> None:
        """Let this broker learn of new topics again, and of those it has missed."""
        with self._open():
            self.broker(broker_id).metadata_cache.resume()

    def stop_broker(self, broker_id: int) -> None:
        """Stop a broker as if it had crashed: its connections break, its log stays."""
        broker = self.broker(broker_id)
        with self.agenda:
            if not broker.is_alive:
                return
            broker.is_alive = False
            broker.fetch_sessions.clear()
            self.controller.on_broker_stopped(broker)
            self.groups.move_coordinators()
            self.transactions.raise_epoch()
        self.agenda.call_unlocked(broker.door.shut)

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped, on the same port, with the log it had."""
        broker = self.broker(broker_id)
        with self._open():
            if broker.is_alive:
                return
            broker.is_alive = True
            self.controller.on_broker_started(broker)
            self.groups.move_coordinators()
        self.agenda.call_unlocked(broker.door.open)

    def _fetcher(self, broker_id: int, topic: str, index: int) -> ReplicaFetcher:
        partition = self.partition(topic, index)
        if broker_id not in partition.fetchers:
            raise Refused(
                ErrorCode.replica_not_available,
                f"broker {broker_id} has no replica of {partition.key}; {partition.replicas} have",
            )
        return partition.fetchers[broker_id]

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Hold the agenda; or Closed."""
        with self.agenda:
            if self._is_closed:
                raise Closed("the cluster is closed; make another one")
            yield

    def close(self) -> None:
        """Stop everything. What waits is cancelled, and connections are closed."""
        with self.agenda:
            if self._is_closed:
                return
            self._is_closed = True
            # From here on nothing begins that would find the timer closed.
            for broker in self.brokers:
                broker.is_alive = False
            for partition in self.controller.partitions():
                for fetcher in partition.fetchers.values():
                    fetcher.stop()
        self.agenda.call_unlocked(self._close)

    def _close(self) -> None:
        self.timer.close()
        for broker in self.brokers:
            broker.door.close()
        self.purgatories.close()
        self._listener.close()
        self.security.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster of {len(self.brokers)} brokers at {self.bootstrap_servers}>"


def _broker_ids(brokers: int | Sequence[int]) -> list[int]:
    """The broker ids, from what was given to `Cluster(brokers)`."""
    if isinstance(brokers, int) and not isinstance(brokers, bool):
        if brokers < 1:
            raise OutOfRange(f"brokers must be ≥ 1, got {brokers}")
        return list(range(1, brokers + 1))
    if not isinstance(brokers, Sequence) or isinstance(brokers, str | bytes):
        raise WrongType(f"brokers must be a number, or a list of ids, got {brokers!r}")
    if not brokers:
        raise OutOfRange("brokers must list at least one id, got none; the default is [1]")
    for broker_id in brokers:
        if not isinstance(broker_id, int) or isinstance(broker_id, bool):
            raise WrongType(f"a broker's id must be an integer, got {broker_id!r}")
        if not 0 <= broker_id < 2**31:
            raise OutOfRange(f"a broker's id must be from 0 to {2**31 - 1}, got {broker_id}")
    if len(set(brokers)) != len(brokers):
        raise OutOfRange(f"each broker needs an id of its own, got {list(brokers)}")
    return list(brokers)
