"""ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import NO_ID, by_topic
from sojourn.kafka.groups.admin_apis import authorized_operations
from sojourn.kafka.groups.consumer.group import ConsumerGroup
from sojourn.kafka.groups.consumer.member import Place
from sojourn.kafka.groups.consumer.messages import Beat
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode, Fields, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply

_CONSUMER = 1  # a member's type: it uses the consumer protocol


class ConsumerApis:
    """One broker's handlers for consumer groups."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._consumers = coordinator.consumers

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "consumer_group_heartbeat": self.consumer_group_heartbeat,
            "consumer_group_describe": self.consumer_group_describe,
        }

    def consumer_group_heartbeat(self, request: Any, reply: Reply, context: Context) -> None:
        """Bring a member one step on."""
        try:
            self._check_enabled()
            answer = self._consumers.heartbeat(_beat(request, context))
        except Refused as refused:
            reply({**refused.fields, "member_epoch": 0})
            return
        assigned = answer.assigned
        reply(
            {
                "error_code": ErrorCode.none,
                "member_id": answer.member_id,
                "member_epoch": answer.epoch,
                "heartbeat_interval": answer.heartbeat_interval_ms,
                "assignment": None if assigned is None else {"topic_partitions": _rows(assigned)},
            }
        )

    def consumer_group_describe(self, request: Any, reply: Reply, context: Context) -> None:
        """Answer the epochs and the members of each group."""
        operations = authorized_operations(request)
        reply({"groups": [self._described(one, operations) for one in request.group_ids]})

    def _described(self, group_id: str, operations: int) -> Fields:
        try:
            self._check_enabled()
            error = self._coordinator.group_error(group_id)
            if error is not None:
                raise Refused(error)
            group = self._consumers.group(group_id)
            if group is None:
                raise Refused(
                    ErrorCode.group_id_not_found, f"there is no consumer group {group_id}"
                )
        except Refused as refused:
            return {
                **refused.fields,
                "group_id": group_id,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
            }
        return {
            "group_id": group_id,
            "error_code": ErrorCode.none,
            "group_state": group.state.value,
            "group_epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "assignor_name": group.protocol,
            "members": self._members(group),
            "authorized_operations": operations,
        }

    def _members(self, group: ConsumerGroup) -> list[Fields]:
        return [
            {
                "member_id": member_id,
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.epoch,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "subscribed_topic_names": sorted(member.topics),
                "subscribed_topic_regex": member.regex,
                "assignment": self._partitions((*member.assigned, *member.revoking)),
                "target_assignment": self._partitions(group.target.get(member_id, ())),
                "member_type": _CONSUMER,
            }
            for member_id, member in group.members.items()
        ]

    def _partitions(self, places: Iterable[Place]) -> Fields:
        """Partitions with their topics' names, of those that exist."""
        rows = []
        for row in _rows(places):
            topic = self._consumers.topics.topic_by_id(row["topic_id"])
            if topic is not None:
                rows.append({**row, "topic_name": topic.name})
        return {"topic_partitions": rows}

    def _check_enabled(self) -> None:
        if not self._consumers.config.is_enabled:
            raise Refused(
                ErrorCode.unsupported_version,
                "this cluster has groups of the classic protocol only: use "
                "group.protocol=classic, or set group.coordinator.rebalance.protocols",
            )


def _beat(request: Any, context: Context) -> Beat:
    timeout_ms = milliseconds(request.rebalance_timeout)
    return Beat(
        request.group_id,
        request.member_id,
        request.member_epoch,
        context.client_id,
        f"/{context.client_host}",
        request.instance_id,
        request.rack_id,
        None if timeout_ms == -1 else timeout_ms,
        _as_set(request.subscribed_topic_names),
        getattr(request, "subscribed_topic_regex", None),
        request.server_assignor,
        None if request.topic_partitions is None else _places(request.topic_partitions),
        needs_member_id=context.api_version == 0,
    )


def _as_set(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _places(rows: Iterable[Any]) -> frozenset[Place]:
    return frozenset(
        (row.topic_id or NO_ID, partition) for row in rows for partition in row.partitions
    )


def _rows(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Partitions by topic, in order."""
    return by_topic(sorted(places), "topic_id")
