"""Rebalancing: members join, a generation begins, members sync and get their assignment.

    PREPARING_REBALANCE    joins wait (delayed_join.py) until every known member has joined
    COMPLETING_REBALANCE   a generation has begun; syncs wait for the leader's, which brings the
                           assignments
    STABLE                 every member has its assignment

Every request is answered once: also one whose member is removed, or asks again meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sojourn.core.purgatory import Purgatory
from sojourn.kafka.groups.delayed_join import DelayedJoin, DelayedSync, InitialDelayedJoin
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.member import Member
from sojourn.kafka.groups.messages import (
    UNKNOWN_MEMBER,
    Join,
    JoinAnswer,
    JoinReply,
    Sync,
    SyncAnswer,
    SyncReply,
)
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.groups.config import GroupConfig
    from sojourn.kafka.groups.coordinator import GroupCoordinator


class Rebalancer:
    """The rebalances of one coordinator's groups. Called with the agenda held."""

    def __init__(self, purgatory: Purgatory, coordinator: GroupCoordinator) -> None:
        self._purgatory = purgatory
        self._coordinator = coordinator
        self._heartbeats = coordinator.heartbeats
        self._store = coordinator.store
        self.agenda = coordinator.agenda

    @property
    def config(self) -> GroupConfig:
        return self._coordinator.config

    # Join.

    def join(self, group: Group, join: Join, reply: JoinReply) -> None:
        """Take the member into the next generation; the reply comes when that begins."""
        if not self._has_room(group, join.member_id):
            self.remove_member(group, join.member_id)
            self.refuse(reply, UNKNOWN_MEMBER, ErrorCode.group_max_size_reached)
        elif not group.supports(join.protocol_type, join.protocols):
            self.refuse(reply, join.member_id, ErrorCode.inconsistent_group_protocol)
        elif join.member_id == UNKNOWN_MEMBER:
            self._join_new(group, join, reply)
        else:
            self._join_known(group, join, reply)
        self.check_joins(group)

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether the group may have this member too; of too many the last to rejoin leave."""
        member = group.members.get(member_id)
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            return (
                member is not None and member.join_reply is not None
            ) or group.awaiting_join < self.config.max_size
        return member is not None or len(group.members) < self.config.max_size

    def _join_new(self, group: Group, join: Join, reply: JoinReply) -> None:
        """A member that has no id yet."""
        member_id = group.new_member_id(join.client_id, join.instance_id)
        static_id = group.static_members.get(join.instance_id) if join.instance_id else None
        if static_id is not None:
            self._replace_static(group, group.members[static_id], member_id, join, reply)
        elif join.needs_member_id and join.instance_id is None:
            self._heartbeats.expect_join(group, member_id, join.session_timeout_ms)
            self.refuse(reply, member_id, ErrorCode.member_id_required)
        else:
            self._add(group, member_id, join, reply)

    def _join_known(self, group: Group, join: Join, reply: JoinReply) -> None:
        """A member that sends its id."""
        if join.member_id in group.pending_members and join.instance_id is None:
            self._add(group, join.member_id, join, reply)
            return
        error = group.member_error(join.member_id, join.instance_id)
        if error is not None:
            self.refuse(reply, join.member_id, error)
            return
        member = group.members[join.member_id]
        has_changed = list(member.protocols.items()) != list(join.protocols.items())
        match group.state:
            case State.PREPARING_REBALANCE:
                self._rejoin(group, member, join, reply)
            case State.COMPLETING_REBALANCE if not has_changed:
                # It probably did not get our answer to its last join: send it again.
                self.agenda.defer(partial(reply, group.join_answer(member)))
            case State.STABLE if not has_changed and member.member_id != group.leader:
                self.agenda.defer(partial(reply, group.join_answer(member)))
            case State.COMPLETING_REBALANCE | State.STABLE:
                # It reads something else now; or it leads, and wants to assign anew.
                self._rejoin(group, member, join, reply)
            case _:
                self.refuse(reply, join.member_id, ErrorCode.unknown_member_id)

    def _add(self, group: Group, member_id: str, join: Join, reply: JoinReply) -> None:
        member = Member(
            member_id,
            join.instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            dict(join.protocols),
            is_new=True,
            join_reply=reply,
        )
        if group.state is State.PREPARING_REBALANCE and group.generation == 0:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = join.protocol_type
        group.add(member)
        self._heartbeats.expect_next(group, member, self.config.new_member_join_timeout_ms)
        self.maybe_prepare_rebalance(group)

    def _rejoin(self, group: Group, member: Member, join: Join, reply: JoinReply) -> None:
        self._park_join(group, member, join, reply)
        self.maybe_prepare_rebalance(group)

    def _park_join(self, group: Group, member: Member, join: Join, reply: JoinReply) -> None:
        """Keep the join until a generation begins; an earlier one of the member is answered."""
        self.answer_join(member, JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id))
        member.protocols = dict(join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_reply = reply
        self._heartbeats.check(group, member.member_id)

    def _replace_static(
        self, group: Group, member: Member, member_id: str, join: Join, reply: JoinReply
    ) -> None:
        """A static member was restarted: it takes its old place under a new id. The old id is
        fenced."""
        old_leader = group.leader or ""
        fenced = ErrorCode.fenced_instance_id
        self.answer_join(member, JoinAnswer(fenced, member.member_id))
        self.answer_sync(member, SyncAnswer(fenced))
        old_member_id = member.member_id
        group.replace(member, member_id)
        member.heartbeat = None
        self._heartbeats.check(group, old_member_id)
        self._park_join(group, member, join, reply)
        if group.state is State.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id: begin again.
            self._prepare_rebalance(group)
        elif group.state is State.STABLE and group.select_protocol() != group.protocol:
            self._prepare_rebalance(group)
        elif group.state is State.STABLE:
            self._store.groups[group.group_id] = group.stored()
            answer = group.join_answer(member, skip_assignment=True)
            if not join.can_skip_assignment:
                # Told the old leader's id, it does not take itself for the leader, and does not
                # send an assignment that is not used.
                answer = JoinAnswer(
                    ErrorCode.none,
                    member_id,
                    group.generation,
                    group.protocol_type,
                    group.protocol,
                    old_leader,
                )
            self.answer_join(member, answer)
        self._heartbeats.expect_next(group, member)

    # Rebalance.

    def watch_joins(self, operation: DelayedJoin) -> None:
        """Let the operation wait for joins of its group."""
        self._purgatory.try_complete_else_watch(operation, [("join", operation.group.group_id)])

    def check_joins(self, group: Group) -> None:
        """Begin the next generation if every member has joined."""
        self._purgatory.check_and_complete(("join", group.group_id))

    def check_syncs(self, group: Group) -> None:
        """Stop waiting for syncs if none is missing."""
        self._purgatory.check_and_complete(("sync", group.group_id))

    def maybe_prepare_rebalance(self, group: Group) -> None:
        """Begin a rebalance, unless one is being prepared."""
        if group.can_rebalance:
            self._prepare_rebalance(group)

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                if self.answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress)):
                    self._heartbeats.expect_next(group, member)
        is_first = group.state is State.EMPTY
        group.move_to(State.PREPARING_REBALANCE)
        self.check_syncs(group)
        if is_first:
            delay_ms = self.config.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self.watch_joins(InitialDelayedJoin(self, group, delay_ms, remaining_ms))
        else:
            self.watch_joins(DelayedJoin(self, group, group.rebalance_timeout_ms))

    def on_complete_join(self, group: Group) -> None:
        """All have joined, or the time is up: begin the next generation."""
        with self.agenda:
            if group.state is not State.PREPARING_REBALANCE:
                return
            for member in list(group.members.values()):
                if member.join_reply is None and not member.is_static:
                    self.remove_member(group, member.member_id)
            if not group.elect_joined_leader() and group.members:
                # Only static members are left, and none has rejoined. Some will, or their sessions
                # end. Until then there is nothing to look at, however short their timeouts.
                longest_ms = max(member.session_timeout_ms for member in group.members.values())
                timeout_ms = max(group.rebalance_timeout_ms, longest_ms)
                self.watch_joins(DelayedJoin(self, group, timeout_ms))
                return
            group.begin_generation()
            group.empty_since_ms = None if group.members else self._coordinator.now_ms()
            if not group.members:
                self._store.groups[group.group_id] = group.stored()
                return
            for member in group.members.values():
                self.answer_join(member, group.join_answer(member))
                member.is_new = False
                group.pending_syncs.add(member.member_id)
                self._heartbeats.expect_next(group, member)
            sync = DelayedSync(self, group, group.rebalance_timeout_ms)
            self._purgatory.try_complete_else_watch(sync, [("sync", group.group_id)])

    def on_expire_pending_syncs(self, group: Group) -> None:
        """Go on without the members that have not asked for their assignment."""
        for member_id in list(group.pending_syncs):
            self.remove_member(group, member_id)
        self.maybe_prepare_rebalance(group)

    # Sync.

    def sync(self, group: Group, sync: Sync, reply: SyncReply) -> None:
        """Send the member its assignment, when the leader has brought it."""
        error = self._sync_error(group, sync)
        if error is not None:
            self.agenda.defer(partial(reply, SyncAnswer(error)))
            return
        member = group.members[sync.member_id]
        group.pending_syncs.discard(member.member_id)
        if group.state is State.STABLE:
            self.agenda.defer(partial(reply, group.sync_answer(member)))
            self._heartbeats.expect_next(group, member)
        else:
            self.answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))
            member.sync_reply = reply
            self._heartbeats.check(group, member.member_id)
            if member.member_id == group.leader:
                self._assign(group, sync.assignments or {})
        self.check_syncs(group)

    def _sync_error(self, group: Group, sync: Sync) -> ErrorCode | None:
        error = group.member_error(sync.member_id, sync.instance_id)
        if error is not None:
            return error
        if sync.generation != group.generation:
            return ErrorCode.illegal_generation
        if sync.protocol_type not in (None, group.protocol_type):
            return ErrorCode.inconsistent_group_protocol
        if group.state is State.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        if sync.protocol not in (None, group.protocol):
            return ErrorCode.inconsistent_group_protocol
        return None

    def _assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """Give every member what the leader assigned; a member it did not name gets nothing."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.move_to(State.STABLE)
        self._store.groups[group.group_id] = group.stored()
        for member in group.members.values():
            if self.answer_sync(member, group.sync_answer(member)):
                self._heartbeats.expect_next(group, member)

    # Members that leave.

    def remove_member_and_rebalance(self, group: Group, member_id: str) -> None:
        """Remove the member; the others rebalance."""
        self.remove_member(group, member_id)
        if group.state is State.PREPARING_REBALANCE:
            self.check_joins(group)
        else:
            self.maybe_prepare_rebalance(group)

    def remove_member(self, group: Group, member_id: str) -> None:
        """Remove the member and answer what waits of it: if it is alive, it will join again."""
        member = group.remove(member_id)
        if member is not None:
            self.answer_waiting(group, member, ErrorCode.unknown_member_id, UNKNOWN_MEMBER)

    # Answers.

    def refuse(self, reply: JoinReply, member_id: str, error: ErrorCode) -> None:
        """Answer a join with an error."""
        self.agenda.defer(partial(reply, JoinAnswer(error, member_id)))

    def answer_waiting(
        self, group: Group, member: Member, error: ErrorCode, member_id: str
    ) -> None:
        """Answer the join and the sync of the member that wait, and expect nothing more of it."""
        self.answer_join(member, JoinAnswer(error, member_id))
        self.answer_sync(member, SyncAnswer(error))
        self._heartbeats.check(group, member.member_id)

    def answer_join(self, member: Member, answer: JoinAnswer) -> None:
        """Answer the member's join, if one waits."""
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.agenda.defer(partial(reply, answer))

    def answer_sync(self, member: Member, answer: SyncAnswer) -> bool:
        """Answer the member's sync, if one waits; return whether one did."""
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            self.agenda.defer(partial(reply, answer))
        return reply is not None
