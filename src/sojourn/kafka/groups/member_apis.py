"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: what members ask of their group.

kio's requests differ from version to version; a field that a version lacks is read with what it
meant before there was one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.messages import Join, JoinAnswer, Sync, SyncAnswer
from sojourn.kafka.wire import ErrorCode, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply


class MemberApis:
    """One broker's handlers for what members ask."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "join_group": self.join_group,
            "sync_group": self.sync_group,
            "heartbeat": self.heartbeat,
            "leave_group": self.leave_group,
        }

    def join_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Add a member; the answer may wait for others."""
        session_timeout_ms = milliseconds(request.session_timeout)
        instance_id = getattr(request, "group_instance_id", None)
        # Before version 1 a member has one timeout for both.
        rebalance_timeout_ms = (
            milliseconds(request.rebalance_timeout)
            if context.api_version >= 1
            else session_timeout_ms
        )
        join = Join(
            request.group_id,
            request.member_id,
            instance_id,
            context.client_id,
            f"/{context.client_host}",
            session_timeout_ms,
            max(rebalance_timeout_ms, 0),
            request.protocol_type,
            {protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
            needs_member_id=context.api_version >= 4 and instance_id is None,
            can_skip_assignment=context.api_version >= 9,
        )

        def answer_join(answer: JoinAnswer) -> None:
            protocol = answer.protocol
            if protocol is None and context.api_version < 7:
                protocol = ""
            reply(
                {
                    "error_code": answer.error,
                    "generation_id": answer.generation,
                    "protocol_type": answer.protocol_type,
                    "protocol_name": protocol,
                    "leader": answer.leader,
                    "skip_assignment": answer.skip_assignment,
                    "member_id": answer.member_id,
                    "members": [
                        {
                            "member_id": member.member_id,
                            "group_instance_id": member.instance_id,
                            "metadata": member.metadata,
                        }
                        for member in answer.members
                    ],
                }
            )

        self._coordinator.join(join, answer_join)

    def sync_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Give a member its assignment; the answer may wait for the leader's request."""

        def answer_sync(answer: SyncAnswer) -> None:
            reply(
                {
                    "error_code": answer.error,
                    "protocol_type": answer.protocol_type,
                    "protocol_name": answer.protocol,
                    "assignment": answer.assignment,
                }
            )

        protocol_type = getattr(request, "protocol_type", None)
        protocol = getattr(request, "protocol_name", None)
        if context.api_version >= 5 and (protocol_type is None or protocol is None):
            answer_sync(SyncAnswer(ErrorCode.inconsistent_group_protocol))
            return
        sync = Sync(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
            protocol_type,
            protocol,
            {row.member_id: bytes(row.assignment) for row in request.assignments},
        )
        self._coordinator.sync(sync, answer_sync)

    def heartbeat(self, request: Any, reply: Reply, context: Context) -> None:
        """Start a member's session anew."""
        error = self._coordinator.heartbeat(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
        )
        reply({"error_code": error})

    def leave_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Remove one member, or several."""
        is_single = not hasattr(request, "members")
        leaving: Sequence[tuple[str, str | None]] = (
            [(request.member_id, None)]
            if is_single
            else [(member.member_id, member.group_instance_id) for member in request.members]
        )
        error, member_errors = self._coordinator.leave(request.group_id, leaving)
        if is_single:
            reply({"error_code": error or member_errors[0]})
            return
        reply(
            {
                "error_code": error,
                "members": [
                    {
                        "member_id": member_id,
                        "group_instance_id": instance_id,
                        "error_code": member_error,
                    }
                    for (member_id, instance_id), member_error in zip(
                        leaving, member_errors, strict=False
                    )
                ],
            }
        )
