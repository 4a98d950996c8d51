"""DescribeGroups, ListGroups and DeleteGroups; and refusals of the newer group protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply

_NOT_ASKED = -(2**31)
_CLASSIC_ONLY = "this cluster has groups of the classic protocol only: use group.protocol=classic"
_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8  # read, delete, describe


class GroupAdminApis:
    """One broker's handlers for groups as a whole."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "describe_groups": self.describe_groups,
            "list_groups": self.list_groups,
            "delete_groups": self.delete_groups,
            "consumer_group_heartbeat": self.consumer_group_heartbeat,
            "consumer_group_describe": self.consumer_group_describe,
        }

    def describe_groups(self, request: Any, reply: Reply, context: Context) -> None:
        """Answer the state and the members of each group."""
        with_operations = getattr(request, "include_authorized_operations", False)
        reply(
            {
                "groups": [
                    {
                        "authorized_operations": _ALL_OPERATIONS if with_operations else _NOT_ASKED,
                        **self._described(group_id),
                    }
                    for group_id in request.groups
                ]
            }
        )

    def _described(self, group_id: str) -> Fields:
        error = self._coordinator.group_error(group_id, may_be_empty=True)
        group = self._coordinator.groups.get(group_id)
        if error is not None or group is None:
            return {
                "error_code": error or ErrorCode.none,
                "group_id": group_id,
                "group_state": "" if error else State.DEAD.value,
                "protocol_type": "",
                "protocol_data": "",
                "members": [],
            }
        protocol = group.protocol if group.state is State.STABLE else None
        return {
            "error_code": ErrorCode.none,
            "group_id": group_id,
            "group_state": group.state.value,
            "protocol_type": group.protocol_type or "",
            "protocol_data": protocol or "",
            "members": [
                {
                    "member_id": member.member_id,
                    "group_instance_id": member.instance_id,
                    "client_id": member.client_id,
                    "client_host": member.client_host,
                    "member_metadata": member.protocols[protocol] if protocol else b"",
                    "member_assignment": member.assignment if protocol else b"",
                }
                for member in group.members.values()
            ],
        }

    def list_groups(self, request: Any, reply: Reply, context: Context) -> None:
        """List this broker's groups, or those in certain states."""
        states = {state.lower() for state in getattr(request, "states_filter", ())}
        types = {kind.lower() for kind in getattr(request, "types_filter", ())}

        def is_wanted(group: Group) -> bool:
            return (not states or group.state.value.lower() in states) and (
                not types or "classic" in types
            )

        reply(
            {
                "error_code": ErrorCode.none,
                "groups": [
                    {
                        "group_id": group.group_id,
                        "protocol_type": group.protocol_type or "",
                        "group_state": group.state.value,
                        "group_type": "classic",
                    }
                    for group in self._coordinator.groups.values()
                    if is_wanted(group)
                ],
            }
        )

    def delete_groups(self, request: Any, reply: Reply, context: Context) -> None:
        """Delete groups that have no members."""
        reply(
            {
                "results": [
                    {"group_id": group_id, "error_code": self._coordinator.delete(group_id)}
                    for group_id in request.groups_names
                ]
            }
        )

    # Groups of the newer protocol (KIP-848) are not supported.

    def consumer_group_heartbeat(self, request: Any, reply: Reply, context: Context) -> None:
        """Refuse a member, like a Kafka that is set to the classic protocol only."""
        reply(
            {
                "error_code": ErrorCode.unsupported_version,
                "error_message": _CLASSIC_ONLY,
                "member_epoch": 0,
            }
        )

    def consumer_group_describe(self, request: Any, reply: Reply, context: Context) -> None:
        """Refuse each group."""
        reply(
            {
                "groups": [
                    {
                        "group_id": group_id,
                        "error_code": ErrorCode.unsupported_version,
                        "error_message": _CLASSIC_ONLY,
                        "group_state": "",
                        "group_epoch": 0,
                        "assignment_epoch": 0,
                        "assignor_name": "",
                    }
                    for group_id in request.group_ids
                ]
            }
        )
