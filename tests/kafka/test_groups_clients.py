"""Real clients in groups: of one kind and mixed, on brokers whose clock is moved by hand."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.checkout import ROOT

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import SystemClock
from sojourn.kafka import Cluster
from sojourn.kafka.groups import Group, State
from sojourn.kafka.wire import ErrorCode
from tests.kafka.client_libraries import KAFKA_PYTHON_WARNS
from tests.kafka.members import CLIENTS, AioKafka, Confluent, KafkaPython, Member, need
from tests.kafka.wire_client import WireClient
from tests.until import PATIENCE_S, until

PARTITIONS = 6
ALL = {("t", partition) for partition in range(PARTITIONS)}
SUBSCRIBED_TO_T = b"\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\xff\xff\xff\xff"
NOTHING_OF_T = b"\0\0" + b"\0\0\0\0" + b"\xff\xff\xff\xff"

# Clients forget sockets, above all of brokers that have stopped; `join` sees to it that these are
# found while nobody minds.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings(KAFKA_PYTHON_WARNS),
]

Join = Callable[..., Member]

#: On a clock that stands still a fetch waits until there is something to fetch, and so does what
#: a client sends behind it on the same connection. Tests that read go by the system's clock.
real_time = pytest.mark.kafka_cluster(clock=SystemClock())


@pytest.fixture
def cluster(kafka_cluster: Cluster, manual_clock: object) -> Cluster:
    """Three brokers on a clock that stands still (but see `real_time`), and a topic."""
    kafka_cluster.create_topic("t", partitions=PARTITIONS)
    return kafka_cluster


@pytest.fixture
def join(cluster: Cluster) -> Iterator[Join]:
    """Start members; those that the test does not close leave at its end."""
    members: list[Member] = []

    def join(kind: type[Member], **options: Any) -> Member:
        need(kind)
        members.append(kind(cluster.bootstrap_servers, ["t"], **options))
        return members[-1]

    yield join
    for member in members:
        member.close()
    members.clear()
    gc.collect()


def classic(cluster: Cluster) -> Group:
    group = cluster.groups["g"]
    assert isinstance(group, Group)
    return group


def share(*members: Member) -> None:
    """Wait until the members share all partitions, each with as many as the others."""

    def is_shared() -> bool:
        parts = [set(member.assigned) for member in members]
        return set().union(*parts) == ALL and sum(map(len, parts)) == PARTITIONS and all(parts)

    until(is_shared, f"{len(members)} members to share {PARTITIONS} partitions")


def join_waits(cluster: Cluster, join: Join, kind: type[Member]) -> Member:
    """Start a member, and wait until its join waits."""
    member = join(kind)
    cluster.wait_until(
        lambda: cluster.purgatories.rebalance.watched, PATIENCE_S, "the join to wait"
    )
    return member


def nothing_waits(cluster: Cluster) -> None:
    """Groups have left nothing behind."""
    purgatories = cluster.purgatories
    until(lambda: not purgatories.rebalance.watched, "the last rebalance to end")
    assert purgatories.heartbeat.watched == 0
    assert purgatories.rebalance.delayed == purgatories.heartbeat.delayed == 0
    assert purgatories.rebalance.metrics().errors == purgatories.heartbeat.metrics().errors == 0


def produce(cluster: Cluster, count: int) -> list[bytes]:
    """Write so many records, over all partitions; return them."""
    need(Confluent)
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    values = [str(n).encode() for n in range(count)]
    for n, value in enumerate(values):
        producer.produce("t", value, partition=n % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


def values(*members: Member) -> list[bytes]:
    return sorted(value for member in members for *_, value in member.read)


class Raw:
    """A member by hand: it does what it is told, and falls silent when it is not."""

    def __init__(self, cluster: Cluster, *, session_ms: int, rebalance_ms: int) -> None:
        broker = cluster.coordinator("g")
        assert broker is not None
        self.client = WireClient(broker.host, broker.port)
        self.fields = {
            "group_id": "g",
            "session_timeout": session_ms,
            "rebalance_timeout": rebalance_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIBED_TO_T}],
        }
        self.member_id = ""
        self.generation = -1

    def join(self) -> Any:
        while True:
            answer = self.client.ask("join_group", 5, member_id=self.member_id, **self.fields)
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.members = [member.member_id for member in answer.members]
            if answer.error_code is not ErrorCode.member_id_required:
                return answer

    def sync(self) -> Any:
        return self.client.ask(
            "sync_group",
            3,
            group_id="g",
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                {"member_id": member_id, "assignment": NOTHING_OF_T} for member_id in self.members
            ],
        )


@pytest.fixture
def raw(cluster: Cluster) -> Iterator[Callable[..., Raw]]:
    members: list[Raw] = []

    def raw(**options: int) -> Raw:
        members.append(Raw(cluster, **options))
        return members[-1]

    yield raw
    for member in members:
        member.client.close()


# Sharing.


@pytest.mark.parametrize("kind", CLIENTS)
def test_members_share_the_partitions_and_inherit_from_those_that_leave(
    cluster: Cluster, join: Join, kind: type[Member]
) -> None:
    first = join(kind)
    share(first)
    second = join(kind)
    share(first, second)
    first.close()
    share(second)
    second.close()
    # A client waits five seconds for the answer to its leaving, and no longer.
    until(lambda: cluster.groups["g"].state is State.EMPTY, "nobody to be left")
    nothing_waits(cluster)


@real_time
@pytest.mark.parametrize(
    "kinds",
    [
        (Confluent, KafkaPython, AioKafka),
        (KafkaPython, AioKafka, Confluent),
        (AioKafka, Confluent, KafkaPython),
    ],
    ids=lambda kinds: "-".join(kind.module for kind in kinds),
)
def test_members_of_three_clients_read_everything_once_between_them(
    cluster: Cluster, join: Join, kinds: tuple[type[Member], ...]
) -> None:
    """Whoever leads, and so assigns for the others."""
    members = []
    for kind in kinds:
        members.append(join(kind))
        share(*members)
    assert cluster.groups["g"].protocol == "range"
    written = produce(cluster, 60)
    until(lambda: len(values(*members)) >= 60, "60 records")
    assert values(*members) == sorted(written)
    assert all(len(member.read) == 20 for member in members)


# Offsets.


@real_time
@pytest.mark.parametrize(
    ("before", "after"),
    [(Confluent, KafkaPython), (KafkaPython, AioKafka), (AioKafka, Confluent)],
)
def test_committed_offsets_survive_a_change_of_member(
    cluster: Cluster, join: Join, before: type[Member], after: type[Member]
) -> None:
    written = produce(cluster, 30)
    first = join(before)
    until(lambda: len(first.read) == 30, "30 records")
    first.commit()
    first.close()
    second = join(after)
    share(second)
    written += produce(cluster, 12)
    until(lambda: len(second.read) >= 12, "12 records more")
    assert values(first, second) == sorted(written)
    offsets = cluster.groups.store.offsets("g")
    assert {partition: one.offset for partition, one in offsets.items()} == dict.fromkeys(ALL, 5)


@real_time
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_group_goes_on_when_its_coordinator_stops(
    cluster: Cluster, join: Join, kind: type[Member]
) -> None:
    member = join(kind)
    share(member)
    home = cluster.coordinator("g")
    assert home is not None
    cluster.stop_broker(home.id)
    assert cluster.coordinator("g") is not home
    beats_where_it_is_now(cluster)
    cluster.start_broker(home.id)
    assert cluster.coordinator("g") is home
    beats_where_it_is_now(cluster)


def beats_where_it_is_now(cluster: Cluster) -> None:
    """The group has moved: its only member finds it, and is heard of."""
    (member,) = cluster.groups["g"].members.values()
    expected = member.heartbeat
    assert expected is not None  # armed anew by the broker that took over
    until(lambda: expected.is_completed, "a heartbeat")
    assert not expected.is_expired


# The four waits, each with a real client, parked, completed and expired.


@pytest.mark.kafka_cluster(config={"group.initial.rebalance.delay.ms": 3_000})
@pytest.mark.parametrize("kind", CLIENTS)
def test_the_first_join_waits_for_the_delay_and_no_longer(
    cluster: Cluster, join: Join, kind: type[Member]
) -> None:
    rebalance = cluster.purgatories.rebalance
    member = join_waits(cluster, join, kind)
    cluster.clock.advance(2_999)
    assert rebalance.watched == 1
    assert cluster.groups["g"].state is State.PREPARING_REBALANCE
    cluster.clock.advance(1)
    share(member)
    assert rebalance.metrics().expired == 1
    member.close()
    nothing_waits(cluster)


def synced(raw: Callable[..., Raw], rebalance_ms: int) -> Raw:
    """A member by hand that has its assignment, and a session as long as can be."""
    member = raw(session_ms=1_800_000, rebalance_ms=rebalance_ms)
    member.join()
    member.sync()
    return member


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_join_waits_for_a_member_until_its_time_to_rejoin_is_up(
    cluster: Cluster, join: Join, raw: Callable[..., Raw], kind: type[Member]
) -> None:
    rebalance = cluster.purgatories.rebalance
    lost = synced(raw, rebalance_ms=200_000)
    member = join_waits(cluster, join, kind)
    assert classic(cluster).awaiting_join == 1
    expired = rebalance.metrics().expired
    cluster.clock.advance(199_999)
    assert rebalance.watched == 1
    cluster.clock.advance(1)
    share(member)
    assert rebalance.metrics().expired == expired + 1
    assert list(cluster.groups["g"].members) != [lost.member_id]
    member.close()
    nothing_waits(cluster)


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_join_completes_when_the_last_member_rejoins(
    cluster: Cluster, join: Join, raw: Callable[..., Raw], kind: type[Member]
) -> None:
    rebalance = cluster.purgatories.rebalance
    leader = synced(raw, rebalance_ms=1_000_000)
    join_waits(cluster, join, kind)
    expired = rebalance.metrics().expired
    assert len(leader.join().members) == 2
    assert rebalance.metrics().expired == expired
    assert rebalance.watched == 1  # the syncs of both
    leader.sync()
    until(lambda: not rebalance.watched, "the other's sync")
    assert cluster.groups["g"].state is State.STABLE


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_sync_waits_for_the_leader_until_its_time_is_up(
    cluster: Cluster, join: Join, raw: Callable[..., Raw], kind: type[Member]
) -> None:
    rebalance = cluster.purgatories.rebalance
    leader = synced(raw, rebalance_ms=1_000_000)
    member = join_waits(cluster, join, kind)
    assert len(leader.join().members) == 2
    group = classic(cluster)
    cluster.wait_until(
        lambda: any(one.sync_reply for one in list(group.members.values())),
        PATIENCE_S,
        "the sync to wait",
    )
    assert rebalance.watched == 1
    expired = rebalance.metrics().expired
    cluster.clock.advance(1_000_000)  # the leader, who has not synced, is dropped
    share(member)
    assert rebalance.metrics().expired == expired + 1
    member.close()
    nothing_waits(cluster)


_MEMBER = """
import threading
from tests.kafka import members
from tests.until import PATIENCE_S, until
member = members.{kind}({servers!r}, ["t"], session_ms=6_000)
until(lambda: member.assigned, "an assignment")
print("assigned", flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("kind", CLIENTS)
def test_when_a_member_dies_its_partitions_go_to_another_after_its_session(
    cluster: Cluster, join: Join, kind: type[Member]
) -> None:
    heartbeat = cluster.purgatories.heartbeat
    survivor = join(kind)
    share(survivor)
    program = _MEMBER.format(kind=kind.__name__, servers=cluster.bootstrap_servers)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"assigned\n"
        process.kill()
    until(lambda: len(survivor.assigned) == PARTITIONS // 2, "the survivor's half")
    cluster.clock.advance(5_999)
    assert len(cluster.groups["g"].members) == 2
    assert heartbeat.metrics().expired == 0
    cluster.clock.advance(1)
    assert heartbeat.metrics().expired == 1
    assert len(cluster.groups["g"].members) == 1
    share(survivor)
    survivor.close()
    nothing_waits(cluster)


# Static members.


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_static_member_is_restarted_without_a_rebalance(
    cluster: Cluster, join: Join, kind: type[Member]
) -> None:
    first, second = join(kind, instance_id="one"), join(kind, instance_id="two")
    share(first, second)
    until(lambda: cluster.groups["g"].state is State.STABLE, "peace")
    generation, had = cluster.groups["g"].generation, set(second.assigned)
    second.close()  # a static member does not say that it leaves
    assert len(cluster.groups["g"].members) == 2
    second = join(kind, instance_id="two")
    until(lambda: second.assigned, "its partitions")
    assert second.assigned == had
    assert cluster.groups["g"].generation == generation
