"""DescribeTransactions, ListTransactions and DescribeProducers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.refusal import Refused
from sojourn.kafka.transactions.apis import coordinator_of
from sojourn.kafka.transactions.transaction import State, Transaction
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker, Context, Handler, Reply

# Kafka's other states, which a transaction never has here.
_UNUSED_STATES = ("Dead", "PrepareEpochFence")
_STATES = {*(state.value for state in State), *_UNUSED_STATES}

# The topic with the offsets of groups: a transaction with offsets shows a partition of it.
_OFFSETS_TOPIC = "__consumer_offsets"


def handlers(broker: Broker) -> Mapping[str, Handler]:
    return {
        "describe_transactions": describe_transactions,
        "list_transactions": list_transactions,
        "describe_producers": describe_producers,
    }


def describe_transactions(request: Any, reply: Reply, context: Context) -> None:
    """Answer the state of these transactional ids."""
    rows = [_described(one, context) for one in request.transactional_ids]
    reply({"transaction_states": rows})


def _described(transactional_id: str, context: Context) -> Fields:
    try:
        if not transactional_id:
            raise Refused(ErrorCode.invalid_request)
        transaction = coordinator_of(context, transactional_id).get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.transactional_id_not_found)
    except Refused as refused:
        return {
            "error_code": refused.code,
            "transactional_id": transactional_id,
            "transaction_state": "",
            "transaction_timeout": 0,
            "transaction_start_time": 0,
            "producer_id": 0,
            "producer_epoch": 0,
        }
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(index)
    if transaction.groups:
        count = context.broker.settings.number("offsets.topic.num.partitions")
        indexes = {_java_hash(group_id) % count for group_id in transaction.groups}
        topics[_OFFSETS_TOPIC] = sorted(indexes)
    return {
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.value,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms,
        "producer_id": transaction.owner.producer_id,
        "producer_epoch": transaction.owner.epoch,
        "topics": [{"topic": topic, "partitions": some} for topic, some in topics.items()],
    }


def _java_hash(text: str) -> int:
    """Java's hash of a string without the sign, by which Kafka chooses a group's partition."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def list_transactions(request: Any, reply: Reply, context: Context) -> None:
    """List the transactional ids of this broker that pass the filters."""
    cluster = context.broker.cluster
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    longer_than_ms = getattr(request, "duration_filter", -1)
    now_ms = cluster.wall_ms()

    def is_wanted(transaction: Transaction) -> bool:
        return (
            cluster.coordinator(transaction.transactional_id) is context.broker
            and (not states or transaction.state.value in states)
            and (not producer_ids or transaction.owner.producer_id in producer_ids)
            and (longer_than_ms < 0 or now_ms - transaction.started_ms > longer_than_ms)
        )

    reply(
        {
            "unknown_state_filters": sorted(states - _STATES),
            "transaction_states": [
                {
                    "transactional_id": transaction.transactional_id,
                    "producer_id": transaction.owner.producer_id,
                    "transaction_state": transaction.state.value,
                }
                for transaction in cluster.transactions.values()
                if is_wanted(transaction)
            ],
        }
    )


def describe_producers(request: Any, reply: Reply, context: Context) -> None:
    """Answer the producers of these partitions."""
    reply(
        {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        _producers(topic.name, index, context) for index in topic.partition_indexes
                    ],
                }
                for topic in request.topics
            ]
        }
    )


def _producers(topic: str, index: int, context: Context) -> Fields:
    metadata_cache = context.broker.metadata_cache
    partition = metadata_cache.partition(topic, index)
    error = ErrorCode.none
    if partition is None:
        error = ErrorCode.unknown_topic_or_partition
    elif not partition.is_led_by(context.broker.id):
        error = ErrorCode.not_leader_or_follower
    if partition is None or error is not ErrorCode.none:
        return {
            "partition_index": index,
            "error_code": error,
            "error_message": None if metadata_cache.topic(topic) else f"there is no topic {topic}",
            "active_producers": [],
        }
    log = partition.log
    return {
        "partition_index": index,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.latest_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": log.isolation.ongoing.get(producer_id, -1),
            }
            for producer_id, producer in log.producers
        ],
    }
