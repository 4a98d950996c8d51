"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sojourn.kafka.answer_parts import NOT_ASKED
from sojourn.kafka.groups.any_group import AnyGroup, State
from sojourn.kafka.groups.coordinator import GroupCoordinator
from sojourn.kafka.wire import ErrorCode, Fields

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply

_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8  # read, delete, describe


def authorized_operations(request: Any) -> int:
    """What a client may do with a group, which is everything; if it asks."""
    is_asked = getattr(request, "include_authorized_operations", False)
    return _ALL_OPERATIONS if is_asked else NOT_ASKED


class GroupAdminApis:
    """One broker's handlers for groups as a whole."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "describe_groups": self.describe_groups,
            "list_groups": self.list_groups,
            "delete_groups": self.delete_groups,
        }

    def describe_groups(self, request: Any, reply: Reply, context: Context) -> None:
        """Answer the state and the members of each group."""
        operations = authorized_operations(request)
        reply(
            {
                "groups": [
                    {"authorized_operations": operations, **self._described(group_id)}
                    for group_id in request.groups
                ]
            }
        )

    def _described(self, group_id: str) -> Fields:
        error = self._coordinator.group_error(group_id, may_be_empty=True)
        group = self._coordinator.classic_group(group_id)
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

        def is_wanted(group: AnyGroup) -> bool:
            return (not states or group.state.value.lower() in states) and (
                not types or group.kind in types
            )

        reply(
            {
                "error_code": ErrorCode.none,
                "groups": [
                    {
                        "group_id": group.group_id,
                        "protocol_type": group.protocol_type or "",
                        "group_state": group.state.value,
                        "group_type": group.kind,
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
