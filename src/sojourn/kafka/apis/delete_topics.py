"""DeleteTopics: by name or by id, each topic by itself. A timeout ≤ 0 deletes nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sojourn.kafka.answer_parts import NO_ID
from sojourn.kafka.quota import Throttle
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Reply
    from sojourn.kafka.controller import Controller
    from sojourn.kafka.topic import Topic

_DELETION_DISABLED_SINCE = 3  # from this version on there is an error code for it


def delete_topics(request: Any, reply: Reply, context: Context) -> None:
    """Delete each topic that exists."""
    cluster = context.broker.cluster
    controller = cluster.controller
    throttle = Throttle(context, strict_from=5)
    names_and_ids: list[tuple[str | None, UUID | None]]
    if context.api_version >= 6:
        names_and_ids = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        names_and_ids = [(name, None) for name in request.topic_names]
    counts = Counter(names_and_ids)
    responses = []
    for name, topic_id in counts:
        fields: dict[str, Any] = {"name": name, "topic_id": topic_id or NO_ID}
        try:
            if not cluster.settings.flag("delete.topic.enable"):
                if context.api_version < _DELETION_DISABLED_SINCE:
                    raise Refused(ErrorCode.invalid_request)
                raise Refused(ErrorCode.topic_deletion_disabled)
            if counts[name, topic_id] > 1:
                raise Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            if milliseconds(request.timeout) <= 0:
                raise Refused(ErrorCode.request_timed_out)
            topic = _find_topic(controller, name, topic_id)
            fields |= {"name": topic.name, "topic_id": topic.id}
            throttle.take(len(topic.partitions))
            controller.delete_topic(topic)
        except Refused as refused:
            fields |= refused.fields
        responses.append(fields)
    reply({"throttle_time": throttle.ms, "responses": responses})


def _find_topic(controller: Controller, name: str | None, topic_id: UUID | None) -> Topic:
    if name is not None and topic_id is not None:
        raise Refused(ErrorCode.invalid_request, "give a topic's name or its id, not both")
    if topic_id is not None:
        topic = controller.topic_by_id(topic_id)
        if topic is None:
            raise Refused(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
        return topic
    if name is None:
        raise Refused(ErrorCode.invalid_request, "give a topic's name or its id, got neither")
    topic = controller.topics.get(name)
    if topic is None:
        raise Refused(
            ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    return topic
