"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn.

Clients of older versions do not know PRODUCER_FENCED: they get INVALID_PRODUCER_EPOCH.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.kafka.internal_topics import is_internal
from sojourn.kafka.refusal import Refused
from sojourn.kafka.transactions.transaction import Owner
from sojourn.kafka.wire import ErrorCode, Fields, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.topic import TopicPartition
    from sojourn.kafka.transactions.coordinator import TransactionCoordinator

# The versions from which on clients know PRODUCER_FENCED.
_INIT_FENCED_SINCE = 4
_FENCED_SINCE = 2

_SEVERAL_TRANSACTIONS_SINCE = 4  # from this version on brokers send it, for several producers


def coordinator_of(context: Context, transactional_id: str) -> TransactionCoordinator:
    """The coordinator, if this broker coordinates the id; or Refused."""
    cluster = context.broker.cluster
    if transactional_id and cluster.coordinator(transactional_id) is not context.broker:
        raise Refused(ErrorCode.not_coordinator)
    return cluster.transactions


def code_for_version(code: ErrorCode, version: int, fenced_since: int = _FENCED_SINCE) -> ErrorCode:
    """The error code for clients of this version."""
    if code is ErrorCode.producer_fenced and version < fenced_since:
        return ErrorCode.invalid_producer_epoch
    return code


def init_producer_id(request: Any, reply: Reply, context: Context) -> None:
    """Answer a producer's id and epoch: a new id, or that of its transactional id."""
    present = Owner(getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1))
    try:
        if (present.producer_id < 0) != (present.epoch < 0):  # both or neither
            raise Refused(ErrorCode.invalid_request)
        if request.transactional_id is None:
            owner = Owner(context.broker.cluster.transactions.new_producer_id(), 0)
        else:
            owner = coordinator_of(context, request.transactional_id).start_producer(
                request.transactional_id,
                milliseconds(request.transaction_timeout),
                None if present.producer_id < 0 else present,
            )
    except Refused as refused:
        code = code_for_version(refused.code, context.api_version, _INIT_FENCED_SINCE)
        reply({"error_code": code, "producer_id": -1, "producer_epoch": -1})
        return
    reply({"producer_id": owner.producer_id, "producer_epoch": owner.epoch})


def add_partitions_to_txn(request: Any, reply: Reply, context: Context) -> None:
    """Add partitions to transactions; or with `verify_only` check that they were added."""
    if context.api_version < _SEVERAL_TRANSACTIONS_SINCE:
        owner = Owner(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        results = _add(request.v3_and_below_transactional_id, owner, topics, False, context)
        reply({"results_by_topic_v3_and_below": results})
        return
    reply(
        {
            "results_by_transaction": [
                {
                    "transactional_id": one.transactional_id,
                    "topic_results": _add(
                        one.transactional_id,
                        Owner(one.producer_id, one.producer_epoch),
                        one.topics,
                        one.verify_only,
                        context,
                    ),
                }
                for one in request.transactions
            ]
        }
    )


def _add(
    transactional_id: str, owner: Owner, topics: Sequence[Any], verify_only: bool, context: Context
) -> list[Fields]:
    """Add all partitions, or none if one is unknown."""
    places = [(topic.name, index) for topic in topics for index in topic.partitions]
    errors = {place: _place_error(place, context) for place in places}
    if any(errors.values()):
        results = {
            place: error or ErrorCode.operation_not_attempted for place, error in errors.items()
        }
    else:
        try:
            transactions = coordinator_of(context, transactional_id)
            if verify_only:
                results = _verify(transactions, transactional_id, owner, places)
            else:
                transactions.add(transactional_id, owner, places)
                results = dict.fromkeys(places, ErrorCode.none)
        except Refused as refused:
            results = dict.fromkeys(places, code_for_version(refused.code, context.api_version))
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": results[topic.name, index]}
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]


def _place_error(place: TopicPartition, context: Context) -> ErrorCode | None:
    """Why this partition cannot be part of a transaction."""
    if is_internal(place[0]):
        return ErrorCode.topic_authorization_failed
    if context.broker.metadata_cache.partition(*place) is None:
        return ErrorCode.unknown_topic_or_partition
    return None


def _verify(
    transactions: TransactionCoordinator,
    transactional_id: str,
    owner: Owner,
    places: Iterable[TopicPartition],
) -> dict[TopicPartition, ErrorCode]:
    results = {}
    for place in places:
        try:
            transactions.check_partition(transactional_id, owner, place)
            results[place] = ErrorCode.none
        except Refused as refused:
            results[place] = refused.code
    return results


def add_offsets_to_txn(request: Any, reply: Reply, context: Context) -> None:
    """Add the offsets of a group to a transaction."""
    owner = Owner(request.producer_id, request.producer_epoch)
    try:
        coordinator_of(context, request.transactional_id).add(
            request.transactional_id, owner, groups=[request.group_id]
        )
    except Refused as refused:
        reply({"error_code": code_for_version(refused.code, context.api_version)})
        return
    reply({"error_code": ErrorCode.none})


def end_txn(request: Any, reply: Reply, context: Context) -> None:
    """Commit a transaction, or abort it."""
    owner = Owner(request.producer_id, request.producer_epoch)
    try:
        coordinator_of(context, request.transactional_id).end(
            request.transactional_id, owner, request.committed
        )
    except Refused as refused:
        reply({"error_code": code_for_version(refused.code, context.api_version)})
        return
    reply({"error_code": ErrorCode.none})
