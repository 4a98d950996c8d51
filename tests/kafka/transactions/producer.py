"""A transactional producer without sockets, and what became of its records."""

from __future__ import annotations

import datetime
from typing import Any

from sojourn.kafka import Cluster
from sojourn.kafka.transactions import State, Transaction
from sojourn.kafka.wire import ErrorCode
from tests.kafka.conformance.batches import batch
from tests.kafka.in_process import Answer, ask, coordinator

TIMEOUT_MS = 60_000


class Producer:
    """A transactional producer that asks the brokers' handlers."""

    def __init__(self, cluster: Cluster, name: str = "x", timeout_ms: int = TIMEOUT_MS) -> None:
        self.cluster = cluster
        self.name = name
        self.sequence = [0, 0]
        answer = self.start(timeout_ms)
        assert "error_code" not in answer, answer
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def start(self, timeout_ms: int = TIMEOUT_MS, owner: tuple[int, int] = (-1, -1)) -> Any:
        return self._ask(
            "init_producer_id",
            5,
            transactional_id=self.name,
            transaction_timeout=datetime.timedelta(milliseconds=timeout_ms),
            producer_id=owner[0],
            producer_epoch=owner[1],
        ).fields

    @property
    def transaction(self) -> Transaction:
        return self.cluster.transactions[self.name]

    def state(self) -> State:
        return self.transaction.state

    def add(self, *partitions: int) -> ErrorCode:
        owner = {f"v3_and_below_{name}": value for name, value in self._owner.items()}
        topics = [{"name": "t", "partitions": list(partitions or (0,))}]
        answer = self._ask("add_partitions_to_txn", 3, **owner, v3_and_below_topics=topics).fields
        (topic,) = answer["results_by_topic_v3_and_below"]
        return ErrorCode(topic["results_by_partition"][0]["partition_error_code"])

    def write(self, *values: bytes, partition: int = 0, acks: int = -1) -> ErrorCode | None:
        """Write without adding; None: it waits."""
        records = batch(
            *values,
            attributes=0x10,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence[partition],
        )
        self.sequence[partition] += len(values)
        rows = [{"index": partition, "records": records}]
        fields = {
            "transactional_id": self.name,
            "acks": acks,
            "timeout": datetime.timedelta(milliseconds=1_000),
            "topic_data": [{"name": "t", "partition_data": rows}],
        }
        answer = ask(self.cluster, self.cluster.leader("t", partition), "produce", 11, fields)
        if answer.fields is None:
            return None
        return ErrorCode(answer.fields["responses"][0]["partition_responses"][0]["error_code"])

    def commit_offset(self, offset: int) -> ErrorCode:
        """Commit an offset of group `g`, which is pending until the transaction ends."""
        self._ask("add_offsets_to_txn", 3, **self._owner, group_id="g")
        row = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
        fields = {
            **self._owner,
            "group_id": "g",
            "topics": [{"name": "t", "partitions": [row]}],
        }
        group_coordinator = coordinator(self.cluster, "g")
        answer = ask(self.cluster, group_coordinator, "txn_offset_commit", 2, fields).fields
        return ErrorCode(answer["topics"][0]["partitions"][0]["error_code"])

    def end(self, committed: bool = True) -> ErrorCode:
        answer = self._ask("end_txn", 4, **self._owner, committed=committed).fields
        return ErrorCode(answer["error_code"])

    @property
    def _owner(self) -> dict[str, Any]:
        return {
            "transactional_id": self.name,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        }

    def _ask(self, api: str, version: int, **fields: Any) -> Answer:
        return ask(self.cluster, coordinator(self.cluster, self.name), api, version, fields)


def open_transaction(cluster: Cluster) -> Producer:
    """A producer that has written `a` to partition 0, in a transaction that is open."""
    producer = Producer(cluster)
    assert producer.add(0) is ErrorCode.none
    assert producer.write(b"a") is ErrorCode.none
    return producer


def written(cluster: Cluster, *, committed: bool = True) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", 0, committed=committed)]


def freeze(cluster: Cluster) -> list[int]:
    """Pause both followers of partition 0; return them."""
    leader = cluster.leader("t", 0)
    followers = [broker.id for broker in cluster.brokers if broker.id != leader]
    for follower in followers:
        cluster.pause_follower(follower, "t", 0)
    return followers


def resume(cluster: Cluster, followers: list[int]) -> None:
    """End what `freeze` began."""
    for follower in followers:
        cluster.resume(follower, "t", 0)
