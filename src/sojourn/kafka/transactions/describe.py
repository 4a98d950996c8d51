"""DescribeTransactions, ListTransactions and DescribeProducers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import by_topic
from sojourn.kafka.internal_topics import OFFSETS
from sojourn.kafka.refusal import Refused
from sojourn.kafka.transactions.apis import coordinator_of
from sojourn.kafka.transactions.transaction import State, Transaction
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply

# Kafka's other states, which a transaction never has here.
_UNUSED_STATES = ("Dead", "PrepareEpochFence")
_STATES = {*(state.value for state in State), *_UNUSED_STATES}


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
    # A transaction with offsets of a group shows the partition in which Kafka keeps them.
    count = context.broker.settings.number("offsets.topic.num.partitions")
    of_groups = {(OFFSETS, _java_hash(group_id) % count) for group_id in transaction.groups}
    return {
        "transactional_id": transactional_id,
        "transaction_state": transaction.state.value,
        "transaction_timeout": transaction.timeout_ms,
        "transaction_start_time": transaction.started_ms,
        "producer_id": transaction.owner.producer_id,
        "producer_epoch": transaction.owner.epoch,
        "topics": by_topic([*sorted(transaction.partitions), *sorted(of_groups)], "topic"),
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
    try:
        log = context.broker.led_partition(topic, index).log
    except Refused as refused:
        is_known = context.broker.metadata_cache.topic(topic) is not None
        return {
            "partition_index": index,
            "error_code": refused.code,
            "error_message": None if is_known else f"there is no topic {topic}",
            "active_producers": [],
        }
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
