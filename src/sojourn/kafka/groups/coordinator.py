"""The group coordinator: one broker's groups, and what their members ask of it.

One member's way in, with the requests of the classic protocol:

    join ""          -> MEMBER_ID_REQUIRED, an id      (from JoinGroup v4 on, unless it is static)
    join id          -> waits (rebalance.py) until the others have rejoined
                     -> generation 1, who leads; the leader also gets everybody's subscriptions
    sync             -> waits for the leader's, which brings the assignments
                     -> assignment
    heartbeat, ...   -> each one puts off the end of its session (heartbeat.py)
                     -> REBALANCE_IN_PROGRESS: join again

Every request is answered, once: also one whose member is removed or asks again meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sojourn.kafka.agenda import Agenda
from sojourn.kafka.groups.answers import UNKNOWN_MEMBER, JoinAnswer, SyncAnswer
from sojourn.kafka.groups.config import GroupConfig
from sojourn.kafka.groups.group import Group, State
from sojourn.kafka.groups.heartbeat import DelayedHeartbeat, PendingMember
from sojourn.kafka.groups.ledger import Ledger
from sojourn.kafka.groups.member import Member
from sojourn.kafka.groups.rebalance import DelayedJoin, DelayedSync, InitialJoin
from sojourn.kafka.wire import ErrorCode
from sojourn.purgatory import Purgatory

JoinReply = Callable[[JoinAnswer], object]
SyncReply = Callable[[SyncAnswer], object]


@dataclass(frozen=True)
class Join:
    """Who wants to join what, and what it can do."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: dict[str, bytes]
    #: Somebody without an id is given one and asked to come again with it.
    needs_member_id: bool = True
    #: A leader that comes back can be told to leave the assignment as it is.
    can_skip_assignment: bool = True


@dataclass(frozen=True)
class Sync:
    """Who asks for its assignment; the leader brings everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: dict[str, bytes] | None = None


class GroupCoordinator:
    """One broker's groups. `is_mine` says which those are; every method may be called from any
    thread; replies are called on the agenda, last of all."""

    def __init__(
        self,
        rebalances: Purgatory,
        heartbeats: Purgatory,
        is_mine: Callable[[str], bool] = lambda group_id: True,
        *,
        config: GroupConfig | None = None,
        ledger: Ledger | None = None,
        agenda: Agenda | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self.rebalances = rebalances
        self.heartbeats = heartbeats
        self.config = GroupConfig() if config is None else config
        self.ledger = Ledger() if ledger is None else ledger
        self.agenda = Agenda() if agenda is None else agenda
        self.groups: dict[str, Group] = {}
        self._is_mine = is_mine
        self._now_ms = now_ms

    # Join.

    def join(self, join: Join, reply: JoinReply) -> None:
        """Take the member into the next generation; the reply comes when that has begun."""
        with self.agenda:
            error = self.why_not_here(join.group_id) or self._why_no_session(join)
            group = self.groups.get(join.group_id)
            if error is None and group is None and join.member_id != UNKNOWN_MEMBER:
                error = ErrorCode.unknown_member_id
            if error is not None:
                self._refuse(reply, join.member_id, error)
                return
            if group is None:
                group = self.groups[join.group_id] = Group(join.group_id)
            if not self._has_room(group, join.member_id):
                self._remove(group, join.member_id)
                self._refuse(reply, UNKNOWN_MEMBER, ErrorCode.group_max_size_reached)
            elif not group.supports(join.protocol_type, join.protocols):
                self._refuse(reply, join.member_id, ErrorCode.inconsistent_group_protocol)
            elif join.member_id == UNKNOWN_MEMBER:
                self._join_new(group, join, reply)
            else:
                self._join_known(group, join, reply)
            self.rebalances.check_and_complete(("join", group.group_id))
            self._forget_unused(group)

    def _why_no_session(self, join: Join) -> ErrorCode | None:
        least, most = self.config.min_session_timeout_ms, self.config.max_session_timeout_ms
        return (
            None if least <= join.session_timeout_ms <= most else ErrorCode.invalid_session_timeout
        )

    def _has_room(self, group: Group, member_id: str) -> bool:
        """Whether the group may have this member too; of too many the last to rejoin go."""
        member = group.members.get(member_id)
        if group.state is State.EMPTY:
            return True
        if group.state is State.PREPARING_REBALANCE:
            return (
                member is not None and member.join_reply is not None
            ) or group.awaiting_join < self.config.max_size
        return member is not None or len(group.members) < self.config.max_size

    def _join_new(self, group: Group, join: Join, reply: JoinReply) -> None:
        """Somebody who does not know its id."""
        member_id = group.new_member_id(join.client_id, join.instance_id)
        known = group.static_members.get(join.instance_id) if join.instance_id else None
        if known is not None:
            self._return_static(group, group.members[known], member_id, join, reply)
        elif join.needs_member_id and join.instance_id is None:
            group.pending_members.add(member_id)
            self.heartbeats.try_complete_else_watch(
                PendingMember(self, group, member_id, join.session_timeout_ms),
                [(group.group_id, member_id)],
            )
            self._refuse(reply, member_id, ErrorCode.member_id_required)
        else:
            self._add(group, member_id, join, reply)

    def _join_known(self, group: Group, join: Join, reply: JoinReply) -> None:
        """Somebody who says who it is."""
        if join.member_id in group.pending_members and join.instance_id is None:
            self._add(group, join.member_id, join, reply)
            return
        error = group.why_not(join.member_id, join.instance_id)
        if error is not None:
            self._refuse(reply, join.member_id, error)
            return
        member = group.members[join.member_id]
        changed = list(member.protocols.items()) != list(join.protocols.items())
        match group.state:
            case State.PREPARING_REBALANCE:
                self._rejoin(group, member, join, reply)
            case State.COMPLETING_REBALANCE if not changed:
                # It probably has not got our answer to its last join: give it again.
                self.agenda.after(partial(reply, group.joined(member)))
            case State.STABLE if not changed and member.member_id != group.leader:
                self.agenda.after(partial(reply, group.joined(member)))
            case State.COMPLETING_REBALANCE | State.STABLE:
                # It reads something else now; or it leads, and wants to assign anew.
                self._rejoin(group, member, join, reply)
            case _:
                self._refuse(reply, join.member_id, ErrorCode.unknown_member_id)

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
        self._expect_heartbeat(group, member, self.config.new_member_join_timeout_ms)
        self.heartbeats.check_and_complete((group.group_id, member_id))  # no longer pending
        self._maybe_prepare_rebalance(group)

    def _rejoin(self, group: Group, member: Member, join: Join, reply: JoinReply) -> None:
        self._park_join(group, member, join, reply)
        self._maybe_prepare_rebalance(group)

    def _park_join(self, group: Group, member: Member, join: Join, reply: JoinReply) -> None:
        self._answer_join(member, JoinAnswer(ErrorCode.rebalance_in_progress, member.member_id))
        member.protocols = dict(join.protocols)
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.join_reply = reply
        self._news_of(group, member)

    def _return_static(
        self, group: Group, member: Member, member_id: str, join: Join, reply: JoinReply
    ) -> None:
        """A static member has been restarted: it takes its old place, and the old one is fenced."""
        old_leader = group.leader or ""
        fenced = ErrorCode.fenced_instance_id
        self._answer_join(member, JoinAnswer(fenced, member.member_id))
        self._answer_sync(member, SyncAnswer(fenced))
        old_member_id = member.member_id
        group.replace(member, member_id)
        member.heartbeat = None
        self.heartbeats.check_and_complete((group.group_id, old_member_id))
        self._park_join(group, member, join, reply)
        if group.state is State.COMPLETING_REBALANCE:
            # The leader may be assigning to its old id: begin again.
            self._prepare_rebalance(group)
        elif group.state is State.STABLE and group.select_protocol() != group.protocol:
            self._prepare_rebalance(group)
        elif group.state is State.STABLE:
            self.ledger.groups[group.group_id] = group.stored()
            answer = group.joined(member, skip_assignment=True)
            if not join.can_skip_assignment:
                # Under its old leader's name it does not take itself for the leader, and does
                # not assign what nobody would be told.
                answer = JoinAnswer(
                    ErrorCode.none,
                    member_id,
                    group.generation,
                    group.protocol_type,
                    group.protocol,
                    old_leader,
                )
            self._answer_join(member, answer)
        self._expect_heartbeat(group, member)

    # Rebalance.

    def watch_rebalance(self, operation: DelayedJoin) -> None:
        """Let the operation wait for news of its group's joins."""
        self.rebalances.try_complete_else_watch(operation, [("join", operation.group.group_id)])

    def _maybe_prepare_rebalance(self, group: Group) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(group)

    def _prepare_rebalance(self, group: Group) -> None:
        if group.state is State.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
                if self._answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress)):
                    self._expect_heartbeat(group, member)
        first = group.state is State.EMPTY
        group.pending_syncs.clear()
        group.move_to(State.PREPARING_REBALANCE)
        self.rebalances.check_and_complete(("sync", group.group_id))
        if first:
            delay_ms = self.config.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self.watch_rebalance(InitialJoin(self, group, delay_ms, remaining_ms))
        else:
            self.watch_rebalance(DelayedJoin(self, group, group.rebalance_timeout_ms))

    def complete_join(self, group: Group) -> None:
        """All have rejoined, or the time is up: begin the next generation."""
        with self.agenda:
            if group.state is not State.PREPARING_REBALANCE:
                return
            for member in list(group.members.values()):
                if member.join_reply is None and not member.is_static:
                    self._remove(group, member.member_id)
            if not group.elect_joined_leader() and group.members:
                # Only static members are left, and none has rejoined. Some will, or their sessions
                # end; before that there is nothing to look at, however short their timeouts.
                longest_ms = max(member.session_timeout_ms for member in group.members.values())
                timeout_ms = max(group.rebalance_timeout_ms, longest_ms)
                self.watch_rebalance(DelayedJoin(self, group, timeout_ms))
                return
            group.begin_generation()
            group.empty_since_ms = None if group.members else self._now_ms()
            if not group.members:
                self.ledger.groups[group.group_id] = group.stored()
                return
            for member in group.members.values():
                self._answer_join(member, group.joined(member))
                member.is_new = False
                group.pending_syncs.add(member.member_id)
                self._expect_heartbeat(group, member)
            sync = DelayedSync(self, group, group.rebalance_timeout_ms)
            self.rebalances.try_complete_else_watch(sync, [("sync", group.group_id)])

    def drop_unsynced(self, group: Group) -> None:
        """Members have joined and then not asked for their assignment: go on without them."""
        for member_id in list(group.pending_syncs):
            self._remove(group, member_id)
        self._maybe_prepare_rebalance(group)

    # Sync.

    def sync(self, sync: Sync, reply: SyncReply) -> None:
        """Tell the member its assignment, when the leader has brought it."""
        with self.agenda:
            group = self.groups.get(sync.group_id)
            error = self.why_not_here(sync.group_id) or self._why_no_sync(group, sync)
            if error is not None or group is None:
                answer = SyncAnswer(error or ErrorCode.unknown_member_id)
                self.agenda.after(partial(reply, answer))
                return
            member = group.members[sync.member_id]
            group.pending_syncs.discard(member.member_id)
            if group.state is State.STABLE:
                self.agenda.after(partial(reply, group.synced(member)))
                self._expect_heartbeat(group, member)
            else:
                self._answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))
                member.sync_reply = reply
                self._news_of(group, member)
                if member.member_id == group.leader:
                    self._assign(group, sync.assignments or {})
            self.rebalances.check_and_complete(("sync", group.group_id))

    def _why_no_sync(self, group: Group | None, sync: Sync) -> ErrorCode | None:
        if group is None:
            return ErrorCode.unknown_member_id
        error = group.why_not(sync.member_id, sync.instance_id)
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
        return ErrorCode.unknown_member_id if group.state is State.EMPTY else None

    def _assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        """The leader has spoken; whoever it has not named gets nothing."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        group.move_to(State.STABLE)
        self.ledger.groups[group.group_id] = group.stored()
        for member in group.members.values():
            if self._answer_sync(member, group.synced(member)):
                self._expect_heartbeat(group, member)

    # Heartbeat.

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None = None
    ) -> ErrorCode:
        """The member lives; say whether it is to rejoin."""
        with self.agenda:
            error = self.why_not_here(group_id)
            if error is not None:
                return error
            group = self.groups.get(group_id)
            if group is None or group.state is State.EMPTY:
                return ErrorCode.unknown_member_id
            error = group.why_not(member_id, instance_id)
            if error is not None:
                return error
            if generation != group.generation:
                return ErrorCode.illegal_generation
            self._expect_heartbeat(group, group.members[member_id])
            if group.state is State.PREPARING_REBALANCE:
                return ErrorCode.rebalance_in_progress
            return ErrorCode.none

    def heard_of(self, group: Group, member_id: str) -> None:
        """The member has shown in another way that it lives."""
        self._expect_heartbeat(group, group.members[member_id])

    def drop_silent(self, group: Group, member: Member) -> None:
        """Nothing was heard of the member for a whole session."""
        self._remove_and_go_on(group, member.member_id)

    def drop_pending(self, group: Group, member_id: str) -> None:
        """The id was given out a whole session ago, and nobody has joined with it."""
        group.pending_members.discard(member_id)
        self.heartbeats.check_and_complete((group.group_id, member_id))
        self.rebalances.check_and_complete(("join", group.group_id))
        self._forget_unused(group)

    def _expect_heartbeat(
        self, group: Group, member: Member, timeout_ms: int | None = None
    ) -> None:
        """The member was heard of: its session starts anew."""
        timeout_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        key = (group.group_id, member.member_id)
        member.heartbeat = expected = DelayedHeartbeat(self, group, member, timeout_ms)
        self.heartbeats.check_and_complete(key)
        self.heartbeats.try_complete_else_watch(expected, [key])

    def _news_of(self, group: Group, member: Member) -> None:
        self.heartbeats.check_and_complete((group.group_id, member.member_id))

    # Leave.

    def leave(
        self, group_id: str, members: Sequence[tuple[str, str | None]]
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """Let members go, each named by member id and instance id; one of them will do."""
        with self.agenda:
            error = self.why_not_here(group_id)
            if error is not None:
                return error, []
            group = self.groups.get(group_id)
            if group is None:
                return ErrorCode.none, [ErrorCode.unknown_member_id for _ in members]
            return ErrorCode.none, [self._leave(group, *member) for member in members]

    def _leave(self, group: Group, member_id: str, instance_id: str | None) -> ErrorCode:
        if member_id == UNKNOWN_MEMBER and instance_id is not None:
            member_id = group.static_members.get(instance_id, UNKNOWN_MEMBER)
        if member_id in group.pending_members:
            self.drop_pending(group, member_id)
            return ErrorCode.none
        error = group.why_not(member_id, instance_id)
        if error is None:
            self._remove_and_go_on(group, member_id)
        return error or ErrorCode.none

    def _remove_and_go_on(self, group: Group, member_id: str) -> None:
        self._remove(group, member_id)
        if group.state is State.PREPARING_REBALANCE:
            self.rebalances.check_and_complete(("join", group.group_id))
        else:
            self._maybe_prepare_rebalance(group)

    def _remove(self, group: Group, member_id: str) -> None:
        """Take the member out, and answer what waits of it: if it lives, it will come again."""
        member = group.remove(member_id)
        if member is None:
            return
        self._answer_join(member, JoinAnswer(ErrorCode.unknown_member_id, UNKNOWN_MEMBER))
        self._answer_sync(member, SyncAnswer(ErrorCode.unknown_member_id))
        self._news_of(group, member)

    # Groups as a whole.

    def why_not_here(self, group_id: str, *, may_be_empty: bool = False) -> ErrorCode | None:
        """Why this broker cannot serve the group; None if it can."""
        if not group_id and not may_be_empty:
            return ErrorCode.invalid_group_id
        return None if self._is_mine(group_id) else ErrorCode.not_coordinator

    def delete(self, group_id: str) -> ErrorCode:
        """Forget the group and its offsets, if it has no members."""
        with self.agenda:
            error = self.why_not_here(group_id, may_be_empty=True)
            if error is not None:
                return error
            group = self.groups.get(group_id)
            if group is None:
                return ErrorCode.group_id_not_found
            if group.state is not State.EMPTY:
                return ErrorCode.non_empty_group
            self._bury(group, ErrorCode.unknown_member_id)
            self.ledger.forget_group(group_id)
            return ErrorCode.none

    def expire(self, keep_ms: int) -> None:
        """Forget offsets that were kept for so long, and groups that have nothing left.

        A group's offsets are kept from when its last member went; those of a group that never
        had one, and of topics that its members do not read, from their commit.
        """
        with self.agenda:
            before_ms = self._now_ms() - keep_ms
            for group in list(self.groups.values()):
                is_empty = group.state is State.EMPTY
                for (topic, partition), committed in list(
                    self.ledger.offsets(group.group_id).items()
                ):
                    since_ms = committed.committed_ms
                    if is_empty and group.empty_since_ms is not None:
                        since_ms = group.empty_since_ms
                    elif not is_empty and group.reads(topic):
                        continue
                    if since_ms <= before_ms and not self.ledger.is_pending(
                        group.group_id, topic, partition
                    ):
                        self.ledger.forget(group.group_id, topic, partition)
                if (
                    is_empty
                    and not group.pending_members
                    and not self.ledger.offsets(group.group_id)
                    and not self.ledger.has_pending(group.group_id)
                ):
                    self._bury(group, ErrorCode.unknown_member_id)
                    self.ledger.forget_group(group.group_id)

    def give_up(self) -> None:
        """Brokers came or went: let go of the groups that are not ours any more."""
        with self.agenda:
            for group in list(self.groups.values()):
                if not self._is_mine(group.group_id):
                    self._bury(group, ErrorCode.not_coordinator)

    def take_over(self) -> None:
        """Go on with the groups that are ours now, from where they were written down."""
        with self.agenda:
            for group_id in sorted(self.ledger.known_groups() - self.groups.keys()):
                if self._is_mine(group_id):
                    self._take_over(group_id)

    def _take_over(self, group_id: str) -> None:
        stored = self.ledger.groups.get(group_id)
        group = Group(group_id) if stored is None else Group.restored(stored)
        self.groups[group_id] = group
        if group.protocol_type and not group.members:
            group.empty_since_ms = self._now_ms()
        for member in group.members.values():
            self._expect_heartbeat(group, member)

    def _forget_unused(self, group: Group) -> None:
        """A group that somebody has asked for and nobody has ever been in is none."""
        if (
            group.state is State.EMPTY
            and group.generation == 0
            and not group.pending_members
            and not self.ledger.offsets(group.group_id)
            and not self.ledger.has_pending(group.group_id)
        ):
            self._bury(group, ErrorCode.unknown_member_id)

    def _bury(self, group: Group, error: ErrorCode) -> None:
        """The group is no longer here; whatever waits of it is answered."""
        del self.groups[group.group_id]
        group.move_to(State.DEAD)
        for member_id in group.pending_members:
            self.heartbeats.check_and_complete((group.group_id, member_id))
        for member in group.members.values():
            self._answer_join(member, JoinAnswer(error, member.member_id))
            self._answer_sync(member, SyncAnswer(error))
            self._news_of(group, member)
        for key in ("join", "sync"):
            self.rebalances.check_and_complete((key, group.group_id))

    # Answers.

    def _refuse(self, reply: JoinReply, member_id: str, error: ErrorCode) -> None:
        self.agenda.after(partial(reply, JoinAnswer(error, member_id)))

    def _answer_join(self, member: Member, answer: JoinAnswer) -> bool:
        reply, member.join_reply = member.join_reply, None
        if reply is not None:
            self.agenda.after(partial(reply, answer))
        return reply is not None

    def _answer_sync(self, member: Member, answer: SyncAnswer) -> bool:
        reply, member.sync_reply = member.sync_reply, None
        if reply is not None:
            self.agenda.after(partial(reply, answer))
        return reply is not None
