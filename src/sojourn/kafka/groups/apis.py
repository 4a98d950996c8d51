"""What clients ask about groups, in the words of the protocol: requests in, fields out.

kio's requests differ from version to version; a field that a version lacks is read with what it
meant before there was one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.kafka.groups.answers import (
    NO_GENERATION,
    UNKNOWN_MEMBER,
    JoinAnswer,
    SyncAnswer,
)
from sojourn.kafka.groups.coordinator import GroupCoordinator, Join, Sync
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.ledger import Committed
from sojourn.kafka.groups.offsets import Offsets, Partition
from sojourn.kafka.refusal import Refused
from sojourn.kafka.transactions import Owner, code_for_writers
from sojourn.kafka.wire import ErrorCode, Fields, milliseconds

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context, Handler, Reply

_GROUP, _TRANSACTION = 0, 1
_SEVERAL = 4  # from this version on several coordinators can be asked for
_ABORTABLE_SINCE = 4  # from this version on producers know that aborting is the way out
_NOT_ASKED = -(2**31)
_CLASSIC_ONLY = "this cluster has groups of the classic protocol only: use group.protocol=classic"
_ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8  # read, delete, describe


class GroupApis:
    """One broker's handlers for everything about groups."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._offsets = Offsets(coordinator)

    def handlers(self) -> Mapping[str, Handler]:
        """The handlers, by the name of their API."""
        return {
            "find_coordinator": self.find_coordinator,
            "join_group": self.join_group,
            "sync_group": self.sync_group,
            "heartbeat": self.heartbeat,
            "leave_group": self.leave_group,
            "offset_commit": self.offset_commit,
            "txn_offset_commit": self.txn_offset_commit,
            "offset_fetch": self.offset_fetch,
            "offset_delete": self.offset_delete,
            "describe_groups": self.describe_groups,
            "list_groups": self.list_groups,
            "delete_groups": self.delete_groups,
            "consumer_group_heartbeat": self.consumer_group_heartbeat,
            "consumer_group_describe": self.consumer_group_describe,
        }

    # Where.

    def find_coordinator(self, request: Any, reply: Reply, context: Context) -> None:
        """Say which broker coordinates a group, or a transactional id."""
        key_type = getattr(request, "key_type", _GROUP)
        if hasattr(request, "coordinator_keys"):
            keys = request.coordinator_keys
            reply({"coordinators": [self._found(key, key_type, context) for key in keys]})
        else:
            found = dict(self._found(request.key, key_type, context))
            del found["key"]
            reply(found)

    def _found(self, key: str, key_type: int, context: Context) -> Fields:
        broker = context.broker.cluster.coordinator(key)
        error = ErrorCode.none
        message = "" if context.api_version >= _SEVERAL else "NONE"
        if key_type not in (_GROUP, _TRANSACTION):
            error = ErrorCode.invalid_request
            message = f"groups and transactions are coordinated, and not type {key_type}"
        elif broker is None:
            error, message = ErrorCode.coordinator_not_available, "no broker is alive"
        if error is not ErrorCode.none or broker is None:
            where: Fields = {"node_id": -1, "host": "", "port": -1}
        else:
            where = {name: broker.endpoint(context)[name] for name in ("node_id", "host", "port")}
        return {"key": key, "error_code": error, "error_message": message, **where}

    # Members.

    def join_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Let a member in; the answer may wait for others."""
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

        def joined(answer: JoinAnswer) -> None:
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

        self._coordinator.join(join, joined)

    def sync_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Give a member its assignment; the answer may wait for the leader's."""

        def synced(answer: SyncAnswer) -> None:
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
            synced(SyncAnswer(ErrorCode.inconsistent_group_protocol))
            return
        sync = Sync(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
            protocol_type,
            protocol,
            {one.member_id: bytes(one.assignment) for one in request.assignments},
        )
        self._coordinator.sync(sync, synced)

    def heartbeat(self, request: Any, reply: Reply, context: Context) -> None:
        """Note that a member lives."""
        error = self._coordinator.heartbeat(
            request.group_id,
            request.generation_id,
            request.member_id,
            getattr(request, "group_instance_id", None),
        )
        reply({"error_code": error})

    def leave_group(self, request: Any, reply: Reply, context: Context) -> None:
        """Let one member go, or several."""
        alone = not hasattr(request, "members")
        asked: Sequence[tuple[str, str | None]] = (
            [(request.member_id, None)]
            if alone
            else [(member.member_id, member.group_instance_id) for member in request.members]
        )
        error, of_members = self._coordinator.leave(request.group_id, asked)
        if alone:
            reply({"error_code": error or of_members[0]})
            return
        reply(
            {
                "error_code": error,
                "members": [
                    {
                        "member_id": member_id,
                        "group_instance_id": instance_id,
                        "error_code": of_member,
                    }
                    for (member_id, instance_id), of_member in zip(asked, of_members, strict=False)
                ],
            }
        )

    # Offsets.

    def offset_commit(self, request: Any, reply: Reply, context: Context) -> None:
        """Write down how far a group has read."""
        asked = _partitions(request.topics)
        answers = self._offsets.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            getattr(request, "group_instance_id", None),
            _committed(asked, context),
        )
        reply({"topics": _per_topic(asked, answers)})

    def txn_offset_commit(self, request: Any, reply: Reply, context: Context) -> None:
        """Write down how far a group has read, if the producer's transaction is committed."""
        asked = _partitions(request.topics)
        known = _committed(asked, context)
        answers: Mapping[Partition, ErrorCode]
        try:
            context.broker.cluster.transactions.check_group(
                request.transactional_id,
                Owner(request.producer_id, request.producer_epoch),
                request.group_id,
            )
        except Refused as refused:
            is_abortable = context.api_version >= _ABORTABLE_SINCE
            answers = dict.fromkeys(known, code_for_writers(refused.code, is_abortable))
        else:
            answers = self._offsets.commit(
                request.group_id,
                getattr(request, "generation_id", NO_GENERATION),
                getattr(request, "member_id", UNKNOWN_MEMBER),
                getattr(request, "group_instance_id", None),
                known,
                request.producer_id,
            )
        reply({"topics": _per_topic(asked, answers)})

    def offset_fetch(self, request: Any, reply: Reply, context: Context) -> None:
        """Say how far a group has read, or several."""
        stable = getattr(request, "require_stable", False)
        if hasattr(request, "groups"):
            reply({"groups": [self._fetched(one, stable, context) for one in request.groups]})
        else:
            fetched = dict(self._fetched(request, stable, context))
            del fetched["group_id"]
            reply(fetched)

    def _fetched(self, asked: Any, stable: bool, context: Context) -> Fields:
        error, committed = self._offsets.fetch(asked.group_id)
        if asked.topics is None:
            wanted: dict[str, Iterable[int]] = {}
            for topic, partition in committed:
                wanted[topic] = [*wanted.get(topic, ()), partition]
        else:
            wanted = {topic.name: topic.partition_indexes for topic in asked.topics}
        # From version 2 on the error stands once, at the top, and no partitions below it.
        of_partition = ErrorCode.none
        if error is not ErrorCode.none:
            if context.api_version >= 2:
                wanted = {}
            else:
                of_partition = error

        def offset(topic: str, partition: int) -> Fields:
            if stable and self._offsets.is_unstable(asked.group_id, (topic, partition)):
                return _offset(partition, None, ErrorCode.unstable_offset_commit)
            return _offset(partition, committed.get((topic, partition)), of_partition)

        return {
            "group_id": asked.group_id,
            "error_code": error,
            "topics": [
                {
                    "name": topic,
                    "partitions": [offset(topic, partition) for partition in partitions],
                }
                for topic, partitions in wanted.items()
            ],
        }

    def offset_delete(self, request: Any, reply: Reply, context: Context) -> None:
        """Strike out how far a group has read."""
        asked = _partitions(request.topics)
        error, answers = self._offsets.delete(
            request.group_id,
            [
                (topic, one.partition_index)
                for topic, one in asked
                if _exists(context, topic, one.partition_index)
            ],
        )
        failed = error is not ErrorCode.none
        reply({"error_code": error, "topics": [] if failed else _per_topic(asked, answers)})

    # Groups as a whole.

    def describe_groups(self, request: Any, reply: Reply, context: Context) -> None:
        """Say what state groups are in, and who is in them."""
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
        error = self._coordinator.why_not_here(group_id, may_be_empty=True)
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
        """Name this broker's groups, or those in certain states."""
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
        """Forget groups that have no members."""
        reply(
            {
                "results": [
                    {"group_id": group_id, "error_code": self._coordinator.delete(group_id)}
                    for group_id in request.groups_names
                ]
            }
        )

    # Groups of the newer protocol (KIP-848), which there are none of.

    def consumer_group_heartbeat(self, request: Any, reply: Reply, context: Context) -> None:
        """Refuse a member, as a Kafka does that is set to the classic protocol only."""
        reply(
            {
                "error_code": ErrorCode.unsupported_version,
                "error_message": _CLASSIC_ONLY,
                "member_epoch": 0,
            }
        )

    def consumer_group_describe(self, request: Any, reply: Reply, context: Context) -> None:
        """Refuse, for each group."""
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


def _partitions(topics: Iterable[Any]) -> list[tuple[str, Any]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _committed(asked: Iterable[tuple[str, Any]], context: Context) -> dict[Partition, Committed]:
    """What is to be written down, of partitions that there are."""
    now_ms = context.broker.cluster.now_ms()
    return {
        (topic, one.partition_index): Committed(
            one.committed_offset,
            getattr(one, "committed_leader_epoch", -1),
            one.committed_metadata or "",
            now_ms,
        )
        for topic, one in asked
        if _exists(context, topic, one.partition_index)
    }


def _exists(context: Context, topic: str, partition: int) -> bool:
    return context.broker.knowledge.partition(topic, partition) is not None


def _per_topic(
    asked: Iterable[tuple[str, Any]], answers: Mapping[Partition, ErrorCode]
) -> list[Fields]:
    """One answer for each partition asked for; those without one do not exist."""
    topics: dict[str, list[Fields]] = {}
    for topic, one in asked:
        error = answers.get((topic, one.partition_index), ErrorCode.unknown_topic_or_partition)
        topics.setdefault(topic, []).append(
            {"partition_index": one.partition_index, "error_code": error}
        )
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


def _offset(partition: int, committed: Committed | None, error: ErrorCode) -> Fields:
    committed = Committed(-1) if committed is None else committed
    return {
        "partition_index": partition,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error,
    }
