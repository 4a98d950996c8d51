"""The group coordinator: one broker's groups, and what their members ask of it.

A member joins with these requests of the classic protocol:

    join ""          -> MEMBER_ID_REQUIRED, an id      (from JoinGroup v4 on, unless it is static)
    join id          -> waits (rebalancer.py) until the others have rejoined
                     -> generation 1, who leads; the leader also gets everybody's subscriptions
    sync             -> waits for the leader's, which brings the assignments
                     -> assignment
    heartbeat, ...   -> each one starts its session anew (heartbeats.py)
                     -> REBALANCE_IN_PROGRESS: join again

Members of the consumer protocol (consumer/) send heartbeats only, and the coordinator assigns.

A group lives here from its first member until it is deleted, expires, or moves to another broker.
One name stands for one group, classic or consumer; while it is empty it can become the other kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from sojourn.core.purgatory import Purgatory
from sojourn.kafka.agenda import Agenda
from sojourn.kafka.groups.any_group import AnyGroup, AnyMember, State
from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.consumer.coordinator import ConsumerCoordinator, Topics
from sojourn.kafka.groups.consumer.group import ConsumerGroup
from sojourn.kafka.groups.consumer.member import ConsumerMember
from sojourn.kafka.groups.group import Group
from sojourn.kafka.groups.heartbeats import Heartbeats
from sojourn.kafka.groups.messages import (
    UNKNOWN_MEMBER,
    Join,
    JoinReply,
    Sync,
    SyncAnswer,
    SyncReply,
)
from sojourn.kafka.groups.rebalancer import Rebalancer
from sojourn.kafka.groups.store import GroupStore
from sojourn.kafka.wire import ErrorCode


class GroupCoordinator:
    """One broker's groups; `is_mine` tells which those are. Every method may be called from any
    thread; replies are called on the agenda, last of all."""

    def __init__(
        self,
        rebalances: Purgatory,
        heartbeats: Purgatory,
        is_mine: Callable[[str], bool],
        *,
        topics: Topics,
        config: GroupConfig,
        consumer_config: ConsumerGroupConfig,
        store: GroupStore,
        agenda: Agenda,
        now_ms: Callable[[], int],
    ) -> None:
        self.config = config
        self.store = store
        self.agenda = agenda
        self.now_ms = now_ms
        self.groups: dict[str, AnyGroup] = {}
        self.heartbeats = Heartbeats(heartbeats, self)
        self._rebalancer = Rebalancer(rebalances, self)
        self.consumers = ConsumerCoordinator(self, rebalances, topics, consumer_config)
        self._is_mine = is_mine

    # Members.

    def join(self, join: Join, reply: JoinReply) -> None:
        """Take the member into the next generation; the reply comes when that begins."""
        with self.agenda:
            error = self.group_error(join.group_id) or self._session_error(join)
            if error is None:
                error = self._kind_error(join)
            group = self.classic_group(join.group_id)
            if error is None and group is None and join.member_id != UNKNOWN_MEMBER:
                error = ErrorCode.unknown_member_id
            if error is not None:
                self._rebalancer.refuse(reply, join.member_id, error)
                return
            if group is None:
                group = self.groups[join.group_id] = Group(join.group_id)
            self._rebalancer.join(group, join, reply)
            self._remove_if_unused(group)

    def _session_error(self, join: Join) -> ErrorCode | None:
        least, most = self.config.min_session_timeout_ms, self.config.max_session_timeout_ms
        return (
            None if least <= join.session_timeout_ms <= most else ErrorCode.invalid_session_timeout
        )

    def _kind_error(self, join: Join) -> ErrorCode | None:
        """Consumers and classic members are not in one group; an empty group changes its kind."""
        group = self.consumers.group(join.group_id)
        if group is None:
            return None
        if group.members or not join.protocols:
            return ErrorCode.inconsistent_group_protocol
        self._remove_group(group, ErrorCode.unknown_member_id)
        self.store.consumer_groups.pop(join.group_id, None)
        return None

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Send the member its assignment, when the leader has brought it."""
        with self.agenda:
            error = self.group_error(sync.group_id)
            group = self.classic_group(sync.group_id)
            if error is not None or group is None:
                answer = SyncAnswer(error or ErrorCode.unknown_member_id)
                self.agenda.defer(partial(reply, answer))
                return
            self._rebalancer.sync(group, sync, reply)

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None = None
    ) -> ErrorCode:
        """Start the member's session anew; REBALANCE_IN_PROGRESS if it has to rejoin."""
        with self.agenda:
            error = self.group_error(group_id)
            if error is not None:
                return error
            group = self.classic_group(group_id)
            if group is None or group.state is State.EMPTY:
                return ErrorCode.unknown_member_id
            error = group.member_error(member_id, instance_id)
            if error is not None:
                return error
            if generation != group.generation:
                return ErrorCode.illegal_generation
            self.heartbeats.expect_next(group, group.members[member_id])
            if group.state is State.PREPARING_REBALANCE:
                return ErrorCode.rebalance_in_progress
            return ErrorCode.none

    def on_expire_heartbeat(self, group: AnyGroup, member: AnyMember) -> None:
        """Remove a member that was not heard of for a whole session."""
        if isinstance(group, ConsumerGroup) and isinstance(member, ConsumerMember):
            self.consumers.remove_member(group, member)
        elif isinstance(group, Group):
            self._rebalancer.remove_member_and_rebalance(group, member.member_id)

    def remove_pending_member(self, group: Group, member_id: str) -> None:
        """Remove an id that was given out and not joined with."""
        group.pending_members.discard(member_id)
        self.heartbeats.check(group, member_id)
        self._rebalancer.check_joins(group)
        self._remove_if_unused(group)

    def leave(
        self, group_id: str, members: Sequence[tuple[str, str | None]]
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Remove members, each named by member id, instance id or both; an error for each."""
        with self.agenda:
            error = self.group_error(group_id)
            if error is not None:
                return error, []
            group = self.groups.get(group_id)
            if isinstance(group, ConsumerGroup):
                return ErrorCode.none, [self.consumers.remove_by_id(group, *one) for one in members]
            if not isinstance(group, Group):
                return ErrorCode.none, [ErrorCode.unknown_member_id for _ in members]
            return ErrorCode.none, [self._leave(group, *one) for one in members]

    def _leave(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = group.static_members.get(instance_id, UNKNOWN_MEMBER)
        if member_id in group.pending_members:
            self.remove_pending_member(group, member_id)
            return ErrorCode.none
        error = group.member_error(member_id, instance_id)
        if error is None:
            self._rebalancer.remove_member_and_rebalance(group, member_id)
        return error or ErrorCode.none

    # Groups.

    def classic_group(self, group_id: str) -> Group | None:
        """The group of this id, if it is a classic one."""
        group = self.groups.get(group_id)
        return group if isinstance(group, Group) else None

    def remove_classic_group(self, group_id: str) -> None:
        """Remove an empty group, but not its offsets: a consumer group takes its place."""
        self._remove_group(self.groups[group_id], ErrorCode.unknown_member_id)
        self.store.groups.pop(group_id, None)

    def group_error(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode | None:
        """Why this broker cannot serve the group; None if it can."""
        if not group_id and not may_be_empty:
            return ErrorCode.invalid_group_id
        return None if self._is_mine(group_id) else ErrorCode.not_coordinator

    def delete(self, group_id: str) -> ErrorCode:
        """Remove the group and its offsets, if it has no members."""
        with self.agenda:
            error = self.group_error(group_id, may_be_empty=True)
            if error is not None:
                return error
            group = self.groups.get(group_id)
            if group is None:
                return ErrorCode.group_id_not_found
            if group.state is not State.EMPTY:
                return ErrorCode.non_empty_group
            self._remove_group(group, ErrorCode.unknown_member_id)
            self.store.remove_group(group_id)
            return ErrorCode.none

    def expire(self, keep_ms: int) -> None:
        """Remove offsets that were kept for `keep_ms`, and groups that have nothing left.

        A group's offsets are kept from when its last member left; those of a group that never
        had one, and of topics that its members do not read, from their commit.
        """
        with self.agenda:
            before_ms = self.now_ms() - keep_ms
            for group in list(self.groups.values()):
                self._expire_offsets(group, before_ms)
                is_joining = isinstance(group, Group) and group.pending_members
                is_unused = group.state is State.EMPTY and self.store.is_empty(group.group_id)
                if is_unused and not is_joining:
                    self._remove_group(group, ErrorCode.unknown_member_id)
                    self.store.remove_group(group.group_id)

    def _expire_offsets(self, group: AnyGroup, before_ms: int) -> None:
        is_empty = group.state is State.EMPTY
        for (topic, partition), committed in list(self.store.offsets(group.group_id).items()):
            since_ms = committed.committed_ms
            if is_empty and group.empty_since_ms is not None:
                since_ms = group.empty_since_ms
            elif not is_empty and group.reads(topic):
                continue
            is_pending = self.store.is_pending(group.group_id, topic, partition)
            if since_ms <= before_ms and not is_pending:
                self.store.remove_offset(group.group_id, topic, partition)

    def unload(self) -> None:
        """Remove the groups that another broker coordinates now."""
        with self.agenda:
            for group in list(self.groups.values()):
                if not self._is_mine(group.group_id):
                    self._remove_group(group, ErrorCode.not_coordinator)

    def load(self) -> None:
        """Go on with the groups that this broker coordinates now, from where they are stored."""
        with self.agenda:
            for group_id in sorted(self.store.group_ids() - self.groups.keys()):
                if self._is_mine(group_id):
                    self._load(group_id)

    def _load(self, group_id: str) -> None:
        consumer_group = self.store.consumer_groups.get(group_id)
        if consumer_group is not None:
            self.groups[group_id] = consumer_group
            self.consumers.load(consumer_group)
            return
        stored = self.store.groups.get(group_id)
        group = Group(group_id) if stored is None else Group.restored(stored)
        self.groups[group_id] = group
        if group.protocol_type and not group.members:
            group.empty_since_ms = self.now_ms()
        for member in group.members.values():
            self.heartbeats.expect_next(group, member)

    def _remove_if_unused(self, group: Group) -> None:
        """Remove a group that never had a member, and has no offsets."""
        if (
            group.state is State.EMPTY
            and group.generation == 0
            and not group.pending_members
            and self.store.is_empty(group.group_id)
        ):
            self._remove_group(group, ErrorCode.unknown_member_id)

    def _remove_group(self, group: AnyGroup, error: ErrorCode) -> None:
        """Remove the group from this broker; whatever waits of it is answered with the error."""
        del self.groups[group.group_id]
        if isinstance(group, ConsumerGroup):
            self.consumers.unload(group)
        elif isinstance(group, Group):
            self._remove_classic(group, error)

    def _remove_classic(self, group: Group, error: ErrorCode) -> None:
        group.move_to(State.DEAD)
        for member_id in group.pending_members:
            self.heartbeats.check(group, member_id)
        for member in group.members.values():
            self._rebalancer.answer_waiting(group, member, error, member.member_id)
        self._rebalancer.check_joins(group)
        self._rebalancer.check_syncs(group)
