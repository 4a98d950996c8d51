"""The Fetch API: a consumer's request in, the answer's fields out.

The partitions of a request are those it names, or those of its session (sessions.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import by_topic, current_leader, leader_endpoints
from sojourn.kafka.fetch.fetch import Fetch
from sojourn.kafka.fetch.reader import FetchPartition, ReadResult
from sojourn.kafka.fetch.sessions import FINAL, FULL, NO_SESSION, FetchSession, SessionPartition
from sojourn.kafka.log.isolation import READ_COMMITTED, READ_UNCOMMITTED
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.partition import Partition

# Versions from which on
_FROM_FOLLOWERS_SINCE = 11  # consumers may read from a follower
_TOPIC_IDS_SINCE = 13  # topics are named by their ids
_LEADER_SINCE = 16  # an answer names the leader that was not found here

_LEADER_ELSEWHERE = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)


def fetch(request: Any, reply: Reply, context: Context) -> None:
    """Answer a consumer's fetch: of the partitions it names, or of those of its session."""
    by_id = context.api_version >= _TOPIC_IDS_SINCE
    fetch_partitions = _named_partitions(request, context, by_id)
    isolation_level = getattr(request, "isolation_level", READ_UNCOMMITTED)
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        unread = [
            ReadResult(one, ErrorCode.unknown_server_error) for one in fetch_partitions.values()
        ]
        rows = _rows(zip(fetch_partitions, unread, strict=True), by_id, context.api_version)
        reply({"error_code": ErrorCode.unknown_server_error, "responses": rows})
        return
    try:
        session, fetch_partitions = _session(request, context, by_id, fetch_partitions)
    except Refused as refused:
        reply({"error_code": refused.code, "responses": []})
        return
    is_full = _session_epoch(request) in (FULL, FINAL)

    def respond(results: Sequence[ReadResult]) -> None:
        shown = [
            (place, result)
            for place, result in zip(fetch_partitions, results, strict=True)
            if session is None or session.update(place, result) or is_full
        ]
        reply(
            {
                "session_id": NO_SESSION if session is None else session.id,
                "responses": _rows(shown, by_id, context.api_version),
                "node_endpoints": _endpoints(results, context),
            }
        )

    waiting = Fetch(
        context.broker,
        list(fetch_partitions.values()),
        respond,
        max_wait_ms=milliseconds(request.max_wait),
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        only_leader=context.api_version < _FROM_FOLLOWERS_SINCE,
        committed=isolation_level == READ_COMMITTED,
    ).start()
    if waiting is not None:
        reply.on_hang_up(waiting.cancel)


FetchPartitions = dict[SessionPartition, FetchPartition]


def _named_partitions(request: Any, context: Context, by_id: bool) -> FetchPartitions:
    """The partitions that the request names, and what it asks of each."""
    fetch_partitions = {}
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for row in topic.partitions:
            place = (name, row.partition)
            partition, unknown_error = _find_partition(context, place)
            fetch_partitions[place] = FetchPartition(
                partition,
                row.partition,
                row.fetch_offset,
                row.partition_max_bytes,
                getattr(row, "current_leader_epoch", -1),
                getattr(row, "last_fetched_epoch", -1),
                unknown_error=unknown_error,
            )
    return fetch_partitions


def _session_epoch(request: Any) -> int:
    epoch: int = getattr(request, "session_epoch", FINAL)
    return epoch


def _session(
    request: Any, context: Context, by_id: bool, fetch_partitions: FetchPartitions
) -> tuple[FetchSession | None, FetchPartitions]:
    """The session that this request begins or continues, and what it fetches; or Refused."""
    sessions = context.broker.fetch_sessions
    session_id = getattr(request, "session_id", NO_SESSION)
    epoch = _session_epoch(request)
    if epoch in (FULL, FINAL):
        sessions.close(session_id)
        session = sessions.new(by_id) if epoch == FULL else None
        if session is not None:
            session.change(fetch_partitions, ())
        return session, fetch_partitions
    session = sessions.continue_session(session_id, epoch, by_id)
    session.change(fetch_partitions, _forgotten(request, by_id))
    if not session.partitions:
        sessions.close(session.id)
        return None, {}
    # A topic may have been created or deleted since the client named it.
    return session, {
        place: cached.fetch_partition._replace(partition=_find_partition(context, place)[0])
        for place, cached in session.partitions.items()
    }


def _forgotten(request: Any, by_id: bool) -> list[SessionPartition]:
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _find_partition(
    context: Context, place: SessionPartition
) -> tuple[Partition | None, ErrorCode]:
    """The partition, and the error if there is none."""
    name, index = place
    metadata_cache = context.broker.metadata_cache
    if isinstance(name, str):
        topic = metadata_cache.topic(name)
    else:
        topic = metadata_cache.topic_by_id(name) if name is not None else None
        if topic is None:
            return None, ErrorCode.unknown_topic_id
    partition = topic.partition(index) if topic is not None else None
    return partition, ErrorCode.unknown_topic_or_partition


def _rows(
    results: Iterable[tuple[SessionPartition, ReadResult]], by_id: bool, version: int
) -> list[dict[str, Any]]:
    """The results, by topic."""
    rows = ((topic, _fields(result, version)) for (topic, _), result in results)
    return by_topic(rows, "topic_id" if by_id else "topic")


def _fields(result: ReadResult, version: int) -> dict[str, Any]:
    error = result.error
    partition = result.fetch_partition.partition
    fields: dict[str, Any] = {
        "partition_index": result.fetch_partition.number,
        "error_code": error,
        "high_watermark": result.high_watermark,
        "last_stable_offset": result.last_stable_offset,
        "log_start_offset": result.start_offset,
        "aborted_transactions": result.aborted
        and [
            {"producer_id": one.producer_id, "first_offset": one.first_offset}
            for one in result.aborted
        ],
        "records": result.data(),
    }
    if result.diverging is not None:
        epoch, end_offset = result.diverging
        fields["diverging_epoch"] = {"epoch": epoch, "end_offset": end_offset}
    if partition is not None and error in _LEADER_ELSEWHERE and version >= _LEADER_SINCE:
        fields["current_leader"] = current_leader(partition)
    return fields


def _endpoints(results: Sequence[ReadResult], context: Context) -> list[dict[str, Any]]:
    """The endpoints of the leaders that were not found here."""
    return leader_endpoints(
        (
            result.fetch_partition.partition
            for result in results
            if result.error in _LEADER_ELSEWHERE
        ),
        context,
    )
