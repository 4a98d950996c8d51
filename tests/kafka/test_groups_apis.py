"""Every version of every group API, over a socket, answered as that version has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.groups import State
from sojourn.kafka.wire import VERSIONS, ErrorCode
from tests.kafka.wire_client import WireClient

SESSION_MS = 10_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    config = {"group.initial.rebalance.delay.ms": 0}
    with Cluster(brokers=3, clock=ManualClock(), config=config) as cluster:
        cluster.create_topic("t", partitions=2)
        yield cluster


Connect = Callable[[], WireClient]


@pytest.fixture
def connect(cluster: Cluster) -> Iterator[Connect]:
    """Connections to the coordinator of group g."""
    clients: list[WireClient] = []

    def connect() -> WireClient:
        broker = cluster.coordinator("g")
        assert broker is not None
        clients.append(WireClient(broker.host, broker.port))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect) -> WireClient:
    return connect()


def versions(name: str) -> range:
    low, high = VERSIONS[name]
    return range(low, high + 1)


def join_fields(member_id: str = "", **others: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "session_timeout": SESSION_MS,
        "rebalance_timeout": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"meta"}],
        **others,
    }


def join(client: WireClient, version: int = 9, **others: Any) -> Any:
    """Join, with the round trip for an id where the version has it."""
    answer = client.ask("join_group", version, **join_fields(**others))
    if answer.error_code is ErrorCode.member_id_required:
        again = join_fields(answer.member_id, **others)
        answer = client.ask("join_group", version, **again)
    return answer


def sync(client: WireClient, joined: Any, version: int = 5, **others: Any) -> Any:
    fields = {
        "group_id": "g",
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
        **others,
    }
    return client.ask("sync_group", version, **fields)


def stable(client: WireClient, **others: Any) -> Any:
    joined = join(client, **others)
    assert sync(client, joined).error_code is ErrorCode.none
    return joined


@pytest.mark.parametrize("version", versions("find_coordinator"))
def test_the_coordinator_is_found_from_any_broker(cluster: Cluster, version: int) -> None:
    where = cluster.coordinator("g")
    assert where is not None
    for broker in cluster.brokers:
        with WireClient(broker.host, broker.port) as client:
            answer = client.ask("find_coordinator", version, key="g", coordinator_keys=["g"])
            if version >= 4:
                (answer,) = answer.coordinators
                assert answer.key == "g"
            assert answer.error_code is ErrorCode.none
            assert (answer.node_id, answer.host, answer.port) == (where.id, where.host, where.port)


def test_groups_are_spread_over_the_brokers(cluster: Cluster, client: WireClient) -> None:
    keys = [f"group-{n}" for n in range(100)]
    answer = client.ask("find_coordinator", 4, coordinator_keys=keys)
    assert {one.node_id for one in answer.coordinators} == {1, 2, 3}


def test_groups_and_transactions_have_a_coordinator(client: WireClient) -> None:
    for kind, code in ((1, ErrorCode.none), (2, ErrorCode.invalid_request)):
        (answer,) = client.ask(
            "find_coordinator", 4, key_type=kind, coordinator_keys=["x"]
        ).coordinators
        assert answer.error_code is code
    answer = client.ask("find_coordinator", 2, key="")
    assert answer.error_code is ErrorCode.none  # as in Kafka: it is refused when it joins


@pytest.mark.parametrize("version", versions("join_group"))
def test_a_member_joins_alone_and_leads(client: WireClient, version: int) -> None:
    answer = client.ask("join_group", version, **join_fields())
    if version >= 4:
        assert answer.error_code is ErrorCode.member_id_required
        answer = client.ask("join_group", version, **join_fields(answer.member_id))
    assert answer.error_code is ErrorCode.none
    assert answer.generation_id == 1
    assert answer.protocol_name == "range"
    assert answer.leader == answer.member_id
    (member,) = answer.members
    assert member.member_id == answer.member_id
    assert member.metadata == b"meta"
    if version >= 7:
        assert answer.protocol_type == "consumer"


@pytest.mark.parametrize("version", versions("join_group"))
def test_a_join_that_is_refused_says_so_in_its_version(client: WireClient, version: int) -> None:
    answer = client.ask("join_group", version, **join_fields(session_timeout=1))
    assert answer.error_code is ErrorCode.invalid_session_timeout
    assert answer.generation_id == -1
    assert answer.protocol_name == (None if version >= 7 else "")


def test_before_version_1_a_session_is_also_the_time_to_rejoin(
    cluster: Cluster, client: WireClient
) -> None:
    joined = join(client, 0)
    assert cluster.groups["g"].members[joined.member_id].rebalance_timeout_ms == SESSION_MS


@pytest.mark.parametrize("version", [v for v in versions("join_group") if v >= 5])
def test_a_static_member_needs_no_round_trip_for_its_id(client: WireClient, version: int) -> None:
    answer = client.ask("join_group", version, **join_fields(group_instance_id="one"))
    assert answer.error_code is ErrorCode.none
    assert answer.members[0].group_instance_id == "one"


@pytest.mark.parametrize("version", [8, 9])
def test_a_returning_static_leader_skips_the_assignment_if_it_can(
    client: WireClient, connect: Connect, version: int
) -> None:
    first = join(client, group_instance_id="one")
    sync(client, first, group_instance_id="one")
    back = connect().ask("join_group", version, **join_fields(group_instance_id="one"))
    assert back.error_code is ErrorCode.none
    if version >= 9:
        assert back.skip_assignment
        assert back.leader == back.member_id
    else:
        assert back.leader == first.member_id


@pytest.mark.parametrize("version", versions("sync_group"))
def test_a_leader_gets_what_it_assigned_itself(client: WireClient, version: int) -> None:
    answer = sync(client, join(client), version)
    assert answer.error_code is ErrorCode.none
    assert answer.assignment == b"all"
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


def test_a_sync_from_version_5_on_names_its_protocol(client: WireClient) -> None:
    answer = sync(client, join(client), protocol_name=None)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", versions("heartbeat"))
def test_a_heartbeat_is_answered(client: WireClient, version: int) -> None:
    joined = stable(client)
    fields = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    assert client.ask("heartbeat", version, **fields).error_code is ErrorCode.none
    fields["member_id"] = "nobody"
    assert client.ask("heartbeat", version, **fields).error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize("version", versions("leave_group"))
def test_a_member_leaves(cluster: Cluster, client: WireClient, version: int) -> None:
    joined = stable(client)
    member_ids = [joined.member_id, "nobody"] if version >= 3 else [joined.member_id]
    fields = {
        "group_id": "g",
        "member_id": joined.member_id,
        "members": [{"member_id": member_id} for member_id in member_ids],
    }
    answer = client.ask("leave_group", version, **fields)
    assert answer.error_code is ErrorCode.none
    if version >= 3:
        assert [member.error_code for member in answer.members] == [
            ErrorCode.none,
            ErrorCode.unknown_member_id,
        ]
    else:
        again = client.ask("leave_group", version, **fields)
        assert again.error_code is ErrorCode.unknown_member_id
    assert cluster.groups["g"].state is State.EMPTY


def commit_fields(offset: int, partition: int = 0, **others: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time_ms": -1,
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_metadata": None,
                    }
                ],
            }
        ],
        **others,
    }


@pytest.mark.parametrize("version", versions("offset_commit"))
def test_offsets_are_committed(cluster: Cluster, client: WireClient, version: int) -> None:
    answer = client.ask("offset_commit", version, **commit_fields(7))
    (topic,) = answer.topics
    assert topic.name == "t"
    assert [one.error_code for one in topic.partitions] == [ErrorCode.none]
    assert cluster.groups.store.offsets("g")["t", 0].offset == 7
    answer = client.ask("offset_commit", version, **commit_fields(7, partition=2))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def fetch_offsets(client: WireClient, version: int, topics: Any) -> Any:
    """The answer for group g, wherever this version has it."""
    groups = [{"group_id": "g", "topics": topics}]
    answer = client.ask("offset_fetch", version, group_id="g", topics=topics, groups=groups)
    return answer.groups[0] if version >= 8 else answer


@pytest.mark.parametrize("version", versions("offset_fetch"))
def test_offsets_are_fetched(client: WireClient, version: int) -> None:
    client.ask("offset_commit", 8, **commit_fields(7, partition=1))
    topics = [{"name": "t", "partition_indexes": [0, 1]}]
    for asked in (topics, None) if version >= 2 else (topics,):
        answer = fetch_offsets(client, version, asked)
        if version >= 2:
            assert answer.error_code is ErrorCode.none
        (topic,) = answer.topics
        offsets = {one.partition_index: one.committed_offset for one in topic.partitions}
        assert offsets == ({0: -1, 1: 7} if asked else {1: 7})
        assert {one.error_code for one in topic.partitions} == {ErrorCode.none}
        assert {one.metadata for one in topic.partitions} == {""}


def elsewhere(cluster: Cluster) -> WireClient:
    broker = next(one for one in cluster.brokers if one is not cluster.coordinator("g"))
    return WireClient(broker.host, broker.port)


@pytest.mark.parametrize("version", versions("offset_fetch"))
def test_offsets_are_fetched_only_from_the_coordinator(cluster: Cluster, version: int) -> None:
    topics = [{"name": "t", "partition_indexes": [0]}]
    with elsewhere(cluster) as client:
        answer = fetch_offsets(client, version, topics)
    if version >= 2:
        assert answer.error_code is ErrorCode.not_coordinator
    else:
        assert answer.topics[0].partitions[0].error_code is ErrorCode.not_coordinator


def test_another_broker_sends_everybody_to_the_coordinator(cluster: Cluster) -> None:
    not_here = ErrorCode.not_coordinator
    with elsewhere(cluster) as client:
        assert join(client).error_code is not_here
        assert client.ask("leave_group", 0, group_id="g", member_id="a").error_code is not_here
        assert client.ask("leave_group", 5, group_id="g", members=[]).error_code is not_here
        fields = {"group_id": "g", "generation_id": 1, "member_id": "a"}
        assert client.ask("heartbeat", 4, **fields).error_code is not_here
        answer = client.ask("offset_commit", 8, **commit_fields(1))
        assert answer.topics[0].partitions[0].error_code is not_here
        answer = client.ask("offset_delete", 0, group_id="g", topics=[])
        assert answer.error_code is not_here
        (group,) = client.ask(
            "describe_groups", 5, groups=["g"], include_authorized_operations=False
        ).groups
        assert group.error_code is not_here
        assert client.ask("delete_groups", 2, groups_names=["g"]).results[0].error_code is not_here


def test_offsets_are_deleted(cluster: Cluster, client: WireClient) -> None:
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "no")]
    answer = client.ask("offset_delete", 0, group_id="g", topics=topics)
    assert answer.error_code is ErrorCode.group_id_not_found
    client.ask("offset_commit", 8, **commit_fields(7))
    answer = client.ask("offset_delete", 0, group_id="g", topics=topics)
    assert answer.error_code is ErrorCode.none
    assert {topic.name: topic.partitions[0].error_code for topic in answer.topics} == {
        "t": ErrorCode.none,
        "no": ErrorCode.unknown_topic_or_partition,
    }
    assert cluster.groups.store.offsets("g") == {}


def test_offsets_go_with_their_topic(cluster: Cluster, client: WireClient) -> None:
    client.ask("offset_commit", 8, **commit_fields(7))
    with cluster.agenda:
        cluster.controller.delete_topic(cluster.controller.topics["t"])
    assert cluster.groups.store.offsets("g") == {}


@pytest.mark.parametrize("version", versions("describe_groups"))
def test_groups_are_described(client: WireClient, version: int) -> None:
    joined = stable(client)
    known, unknown = client.ask(
        "describe_groups", version, groups=["g", ""], include_authorized_operations=True
    ).groups
    assert (known.group_id, known.group_state) == ("g", "Stable")
    assert (known.protocol_type, known.protocol_data) == ("consumer", "range")
    (member,) = known.members
    assert (member.member_id, member.client_id) == (joined.member_id, "test")
    assert (member.client_host, member.member_metadata) == ("/127.0.0.1", b"meta")
    assert member.member_assignment == b"all"
    if version >= 3:
        assert known.authorized_operations == 0b1_0100_1000
    assert unknown.group_state in ("Dead", "")


@pytest.mark.parametrize("version", versions("list_groups"))
def test_groups_are_listed(client: WireClient, version: int) -> None:
    joined = stable(client)
    (group,) = client.ask("list_groups", version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    if version >= 4:
        assert group.group_state == "Stable"
        assert len(client.ask("list_groups", version, states_filter=["stable"]).groups) == 1
        assert client.ask("list_groups", version, states_filter=["Empty"]).groups == ()
        client.ask("leave_group", 0, group_id="g", member_id=joined.member_id)
        assert len(client.ask("list_groups", version, states_filter=["Empty"]).groups) == 1
    if version >= 5:
        assert group.group_type == "classic"
        assert client.ask("list_groups", version, types_filter=["consumer"]).groups == ()


@pytest.mark.parametrize("version", versions("delete_groups"))
def test_only_groups_without_members_are_deleted(client: WireClient, version: int) -> None:
    def delete() -> ErrorCode:
        (result,) = client.ask("delete_groups", version, groups_names=["g"]).results
        error: ErrorCode = result.error_code
        return error

    assert delete() is ErrorCode.group_id_not_found
    joined = stable(client)
    assert delete() is ErrorCode.non_empty_group
    client.ask("leave_group", 0, group_id="g", member_id=joined.member_id)
    assert delete() is ErrorCode.none
    assert client.ask("list_groups", 5).groups == ()


def test_a_group_moves_when_its_broker_stops_and_back_when_it_starts(
    cluster: Cluster, client: WireClient
) -> None:
    joined = stable(client)
    client.ask(
        "offset_commit",
        8,
        **commit_fields(7, member_id=joined.member_id, generation_id_or_member_epoch=1),
    )
    home = cluster.coordinator("g")
    assert home is not None
    fields = {"group_id": "g", "generation_id": 1, "member_id": joined.member_id}
    cluster.stop_broker(home.id)
    away = cluster.coordinator("g")
    assert away is not None
    assert away is not home
    with WireClient(away.host, away.port) as other:
        assert other.ask("heartbeat", 4, **fields).error_code is ErrorCode.none
        assert cluster.purgatories.heartbeat.watched == 1
        cluster.start_broker(home.id)
        assert other.ask("heartbeat", 4, **fields).error_code is ErrorCode.not_coordinator
    with WireClient(home.host, home.port) as other:
        assert other.ask("heartbeat", 4, **fields).error_code is ErrorCode.none
    assert cluster.groups.store.offsets("g")["t", 0].offset == 7
    cluster.clock.advance(SESSION_MS)
    assert cluster.groups["g"].state is State.EMPTY
    assert cluster.purgatories.heartbeat.watched == 0
