"""Real clients in consumer groups: librdkafka, and by night Kafka's own Java client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.groups import ConsumerGroup, State
from tests.kafka.java_programs import jars_or_skip, run_java
from tests.until import PATIENCE_S

confluent = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
confluent_admin = pytest.importorskip("confluent_kafka.admin")

PARTITIONS = 6
#: Members send heartbeats when they are told to; the default is too slow for a test.
FAST = {
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 50,
}

Join = Callable[..., Any]


class Table:
    """Consumers that poll in turn, and what they have read."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.consumers: list[Any] = []
        self.read: list[tuple[int, int]] = []  # partition and offset
        self.lost: list[Any] = []  # by those who were fenced

    def join(self, *topics: str, **settings: object) -> Any:
        consumer = confluent.Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                # On a clock that stands still a fetch would wait, and all that comes after it.
                "fetch.wait.max.ms": 0,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        consumer.subscribe(
            list(topics or ("t",)), on_lost=lambda _, partitions: self.lost.append(partitions)
        )
        self.consumers.append(consumer)
        return consumer

    def leave(self, consumer: Any) -> None:
        self.consumers.remove(consumer)
        consumer.close()

    def until(self, condition: Callable[[], object]) -> None:
        """Let everybody poll until the condition holds."""

        def holds() -> bool:
            for consumer in self.consumers:
                message = consumer.poll(0)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.read.append((message.partition(), message.offset()))
            return bool(condition())

        self.cluster.wait_until(holds, PATIENCE_S)

    def share(self) -> None:
        """Wait until all partitions are shared, each with one owner."""

        def is_shared() -> bool:
            parts = [parts_of(consumer) for consumer in self.consumers]
            everything = sorted(number for part in parts for number in part)
            fair = max(map(len, parts)) - min(map(len, parts)) <= 1
            return everything == list(range(PARTITIONS)) and fair

        self.until(is_shared)

    @property
    def group(self) -> ConsumerGroup:
        group = self.cluster.groups["g"]
        assert isinstance(group, ConsumerGroup)
        return group


def parts_of(consumer: Any) -> list[int]:
    return sorted(one.partition for one in consumer.assignment())


@pytest.fixture
def table() -> Iterator[Table]:
    with Cluster(brokers=3, clock=ManualClock(), config=FAST) as cluster:
        cluster.create_topic("t", partitions=PARTITIONS)
        made = Table(cluster)
        yield made
        for consumer in made.consumers:
            consumer.close()


def test_members_share_join_and_leave(table: Table) -> None:
    one = table.join()
    table.share()
    assert table.group.state is State.STABLE
    two, _ = table.join(), table.join()
    table.share()
    table.leave(two)
    table.share()
    table.leave(one)
    table.share()
    assert len(table.group.members) == 1


def test_what_was_committed_is_not_read_again_by_the_next_owner(table: Table) -> None:
    for partition in range(PARTITIONS):
        table.cluster.append("t", [b"0", b"1"], partition)
    one = table.join()
    table.until(lambda: len(table.read) == 2 * PARTITIONS)
    one.commit(asynchronous=False)
    two = table.join()
    table.share()
    table.leave(one)
    for partition in range(PARTITIONS):
        table.cluster.append("t", [b"2"], partition)
    table.until(lambda: len(table.read) == 3 * PARTITIONS and parts_of(two))
    assert sorted(table.read) == [(p, n) for p in range(PARTITIONS) for n in range(3)]


def test_members_whose_sessions_end_come_back(table: Table) -> None:
    one, two = table.join(), table.join()
    table.share()
    before = set(table.group.members)
    table.cluster.clock.advance(45_000)
    assert table.group.state is State.EMPTY
    table.until(lambda: len(table.group.members) == 2)
    table.share()
    assert table.group.epoch > 3
    assert set(table.group.members) == before  # their ids are their own
    assert parts_of(one)
    assert parts_of(two)


def test_a_static_member_comes_back_to_its_part(table: Table) -> None:
    one = table.join(group_instance_id="i")
    table.join(group_instance_id="j")
    table.share()
    epoch, had = table.group.epoch, parts_of(one)
    table.leave(one)
    table.until(lambda: any(member.epoch == -2 for member in table.group.members.values()))
    again = table.join(group_instance_id="i")
    table.share()
    assert parts_of(again) == had
    assert table.group.epoch == epoch


def test_a_regular_expression_is_resolved_by_the_coordinator(table: Table) -> None:
    table.cluster.create_topic("other", partitions=3)
    consumer = table.join("^t.*")
    table.share()
    table.cluster.create_topic("t2", partitions=2)
    table.cluster.clock.advance(10_001)
    table.until(lambda: len(consumer.assignment()) == PARTITIONS + 2)
    (member,) = table.group.members.values()
    assert "^t.*" in member.regex
    assert member.topics == frozenset()


def test_partitions_that_are_added_are_given_out(table: Table) -> None:
    consumer = table.join()
    table.share()
    admin = confluent_admin.AdminClient({"bootstrap.servers": table.cluster.bootstrap_servers})
    more = confluent_admin.NewPartitions("t", PARTITIONS + 3)
    admin.create_partitions([more])["t"].result(PATIENCE_S)
    table.until(lambda: len(consumer.assignment()) == PARTITIONS + 3)


def test_a_broker_stops_and_the_group_goes_on(table: Table) -> None:
    consumer = table.join()
    table.share()
    coordinator = table.cluster.coordinator("g")
    assert coordinator is not None
    epoch = table.group.epoch
    table.cluster.stop_broker(coordinator.id)
    # Those with a leader are read on; the member has not joined again.
    (before,) = table.group.members.values()
    beat = before.heartbeat
    table.until(lambda: before.heartbeat is not beat)
    assert table.group.epoch == epoch
    assert parts_of(consumer) == list(range(PARTITIONS))


def test_tools_see_consumer_groups(table: Table) -> None:
    table.join(client_id="me")
    table.share()
    admin = confluent_admin.AdminClient({"bootstrap.servers": table.cluster.bootstrap_servers})
    kinds = confluent.ConsumerGroupType
    listed = admin.list_consumer_groups(types={kinds.CONSUMER}).result(PATIENCE_S)
    assert [(one.group_id, one.type) for one in listed.valid] == [("g", kinds.CONSUMER)]
    assert not admin.list_consumer_groups(types={kinds.CLASSIC}).result(PATIENCE_S).valid
    described = admin.describe_consumer_groups(["g"])["g"].result(PATIENCE_S)
    assert described.state is confluent.ConsumerGroupState.STABLE
    (member,) = described.members
    assert (member.client_id, len(member.assignment.topic_partitions)) == ("me", PARTITIONS)
    with pytest.raises(confluent.KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups(["g"])["g"].result(PATIENCE_S)


def test_a_member_that_is_fenced_by_a_scripted_fault_joins_again(table: Table) -> None:
    for _ in range(2):
        table.join()
    table.share()
    epoch = table.group.epoch
    with table.cluster.faults.answer(
        "ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH", times=1
    ) as fault:
        table.until(lambda: table.lost)
        table.share()
    table.until(lambda: table.group.state is State.STABLE)
    assert table.group.epoch == epoch  # nobody else had to notice
    assert (fault.hits, len(table.lost)) == (1, 1)


@pytest.mark.nightly
def test_the_java_client_shares_commits_and_is_fenced() -> None:
    jars = jars_or_skip("4.3.1")
    with Cluster(brokers=3, config=FAST) as cluster:
        cluster.create_topic("t", partitions=4, replication_factor=3)
        lines = run_java("ConsumerGroups.java", jars, cluster, timeout_s=600)
    assert lines == [
        "alone [t-0, t-1, t-2, t-3]",
        "shared 2 2",
        "state STABLE type CONSUMER",
        "read 8",
        "left alone [t-0, t-1, t-2, t-3]",
        "nothing again true",
        "regex [t-0, t-1, t-2, t-3]",
        "static UnreleasedInstanceIdException",
        "deleted [g, r, s]",
    ]
