"""The coordinator of consumer groups: every heartbeat of a member brings its group one step on.

    1. the member is added or updated; what it reads may have changed
    2. if that changes the group, or its topics have changed: the group epoch is raised
    3. if the target is older than the group epoch: a new target
    4. the member goes one step towards its part of the target (reconciliation.py)

Two members and four partitions:

    one: join              epoch 2, has 0 1 2 3
    two: join              epoch 3, has nothing yet; its target is 2 3
    one: heartbeat         epoch 2, has 0 1: it has to revoke 2 3
    one: I have 0 1        epoch 3
    two: heartbeat         epoch 3, has 2 3
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from sojourn.core.purgatory import Purgatory
from sojourn.kafka.groups.any_group import State
from sojourn.kafka.groups.consumer.assignors import ASSIGNORS, Reader
from sojourn.kafka.groups.consumer.config import ConsumerGroupConfig
from sojourn.kafka.groups.consumer.group import ConsumerGroup
from sojourn.kafka.groups.consumer.member import AWAY, ConsumerMember
from sojourn.kafka.groups.consumer.messages import JOIN, LEAVE, Beat, BeatAnswer
from sojourn.kafka.groups.consumer.reconciliation import away, next_step
from sojourn.kafka.groups.consumer.regexes import compiled
from sojourn.kafka.groups.consumer.revocation import DelayedRevocation
from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.groups.coordinator import GroupCoordinator
    from sojourn.kafka.topic import Topic


class Topics(Protocol):
    """The topics that the coordinator's broker knows."""

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: UUID) -> Topic | None: ...

    def topics(self) -> Iterator[Topic]: ...


class ConsumerCoordinator:
    """The consumer groups of one coordinator. Every method may be called from any thread."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        rebalances: Purgatory,
        topics: Topics,
        config: ConsumerGroupConfig,
    ) -> None:
        self._coordinator = coordinator
        self._rebalances = rebalances
        self._store = coordinator.store
        self.topics = topics
        self.config = config
        self.agenda = coordinator.agenda

    def heartbeat(self, beat: Beat) -> BeatAnswer:
        """Bring the member one step on; or Refused."""
        with self.agenda:
            self._check(beat)
            error = self._coordinator.group_error(beat.group_id)
            if error is not None:
                raise Refused(error)
            return self._leave(beat) if beat.epoch in (LEAVE, AWAY) else self._beat(beat)

    def group(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of this id, if there is one."""
        group = self._coordinator.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # What is wrong with a heartbeat.

    def _check(self, beat: Beat) -> None:
        """Refuse what no group could accept."""
        if not beat.group_id.strip():
            raise _invalid("the group id is empty")
        if not (beat.member_id or (beat.needs_member_id and beat.epoch == JOIN)):
            raise _invalid("the member id is empty; since version 1 the client chooses it")
        for name, text in (("instance id", beat.instance_id), ("rack id", beat.rack_id)):
            if text is not None and not text.strip():
                raise _invalid(f"the {name} is empty; leave it out, or name one")
        if beat.epoch == JOIN:
            if beat.rebalance_timeout_ms is None:
                raise _invalid("a member that joins has to tell its rebalance timeout")
            if beat.owned is None or beat.owned:
                raise _invalid("a member that joins has no partitions: send an empty list of them")
            if beat.topics is None and beat.regex is None:
                raise _invalid("a member that joins has to tell what it reads: names or a regex")
        if beat.epoch < AWAY or (beat.epoch == AWAY and beat.instance_id is None):
            raise _invalid(f"{beat.epoch} is not an epoch that this member can have")
        if beat.assignor is not None and beat.assignor not in self.config.assignors:
            raise Refused(
                ErrorCode.unsupported_assignor,
                f"there is no assignor {beat.assignor!r}, only {', '.join(self.config.assignors)}",
            )

    def _check_epoch(self, member: ConsumerMember, beat: Beat) -> None:
        """A member that is an epoch behind did not get our last answer; others are fenced."""
        if beat.epoch in (JOIN, member.epoch):
            return
        is_behind = beat.epoch == member.previous_epoch and beat.epoch < member.epoch
        if not is_behind or beat.owned is None or not beat.owned <= member.assigned.keys():
            raise Refused(
                ErrorCode.fenced_member_epoch,
                f"the epoch of member {member.member_id} is {member.epoch}, got {beat.epoch}; it "
                "must abandon its partitions and join again",
            )

    def _check_regex(self, group: ConsumerGroup, beat: Beat) -> None:
        if beat.regex and beat.regex not in group.regexes:
            try:
                compiled(beat.regex)
            except re.error as error:
                raise Refused(
                    ErrorCode.invalid_regular_expression,
                    f"{beat.regex!r} is not a regular expression of RE2: {error}",
                ) from None

    # Heartbeats.

    def _beat(self, beat: Beat) -> BeatAnswer:
        find = self._group_to_join if beat.epoch == JOIN else self.group
        group = find(beat.group_id)
        if group is None:
            raise _unknown(beat.member_id)
        if len(group.members) >= self.config.max_size and beat.member_id not in group.members:
            raise Refused(
                ErrorCode.group_max_size_reached,
                f"group {group.group_id} has {len(group.members)} members, and "
                f"group.consumer.max.size is {self.config.max_size}",
            )
        member = self._member(group, beat)
        self._check_regex(group, beat)

        # From here on nothing is refused.
        if group.group_id not in self._coordinator.groups:
            self._coordinator.groups[group.group_id] = group
            self._store.consumer_groups[group.group_id] = group
        member_id = beat.member_id or _new_member_id()
        if member is None:
            member = ConsumerMember(member_id, beat.instance_id)
            group.add(member)
        elif member.member_id != member_id:
            self._coordinator.heartbeats.check(group, member.member_id)
            group.replace(member, member_id)
        had = set(member.assigned)
        self._update(group, member, beat)
        self._expect_heartbeat(group, member)
        needs_to_know = beat.epoch == JOIN or beat.is_full or member.assigned.keys() != had
        return BeatAnswer(
            member.member_id,
            member.epoch,
            self.config.heartbeat_interval_ms,
            member.assigned.keys() if needs_to_know else None,
        )

    def _group_to_join(self, group_id: str) -> ConsumerGroup | None:
        """The group, or a new one; a classic group without members becomes a consumer group."""
        group = self._coordinator.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None:
            if group.state is not State.EMPTY:
                raise Refused(
                    ErrorCode.group_id_not_found,
                    f"group {group_id} has members of the classic protocol; a consumer can join it "
                    "when they have left",
                )
            self._coordinator.remove_classic_group(group_id)
        return ConsumerGroup(group_id, self.config.assignors[0])

    def _member(self, group: ConsumerGroup, beat: Beat) -> ConsumerMember | None:
        """The member that sent this, or the static one whose place it takes; None if it is new."""
        if beat.instance_id is None:
            member = group.members.get(beat.member_id)
            if member is None and beat.epoch != JOIN:
                raise _unknown(beat.member_id)
        else:
            member = group.static_member(beat.instance_id)
            if beat.epoch == JOIN:
                if member is not None and member.epoch != AWAY:
                    raise Refused(
                        ErrorCode.unreleased_instance_id,
                        f"instance {beat.instance_id} is member {member.member_id}, which has not "
                        f"left; {beat.member_id} cannot take its place",
                    )
                return member
            self._check_instance(member, beat)
        if member is not None:
            self._check_epoch(member, beat)
        return member

    def _check_instance(self, member: ConsumerMember | None, beat: Beat) -> None:
        if member is None:
            raise _unknown(beat.member_id)
        if member.member_id != beat.member_id:
            raise Refused(
                ErrorCode.fenced_instance_id,
                f"instance {beat.instance_id} is member {member.member_id}, not {beat.member_id}",
            )

    def _update(self, group: ConsumerGroup, member: ConsumerMember, beat: Beat) -> None:
        """Update the member, then the group's epoch and target, then the member's part."""
        had_topics, had_regex = member.topics, member.regex
        member.client_id, member.client_host = beat.client_id, beat.client_host
        member.instance_id = member.instance_id if beat.instance_id is None else beat.instance_id
        member.rack_id = member.rack_id if beat.rack_id is None else beat.rack_id
        if beat.rebalance_timeout_ms is not None:
            member.rebalance_timeout_ms = beat.rebalance_timeout_ms
        member.assignor = member.assignor if beat.assignor is None else beat.assignor
        member.topics = member.topics if beat.topics is None else beat.topics
        member.regex = member.regex if beat.regex is None else beat.regex
        has_new_regex = member.regex != had_regex
        self._refresh_regexes(group)
        # A regex that is not resolved yet raises the epoch when it is.
        is_resolved = has_new_regex and (not member.regex or member.regex in group.regexes)
        if member.topics != had_topics or is_resolved or self._topics_have_changed(group):
            self._raise_epoch(group)
        if group.epoch > group.assignment_epoch and self._may_assign(group):
            self._assign(group)
        self._reconcile(group, member, beat, has_new_regex or member.topics != had_topics)

    def _raise_epoch(self, group: ConsumerGroup) -> None:
        group.epoch += 1
        group.metadata = self._metadata(group)

    def _topics_have_changed(self, group: ConsumerGroup) -> bool:
        """Whether a topic that it reads was created or deleted, or has more partitions."""
        before = group.metadata
        return any(before.get(name, now) != now for name, now in self._metadata(group).items())

    def _metadata(self, group: ConsumerGroup) -> dict[str, tuple[UUID, int] | None]:
        topics = {name: self.topics.topic(name) for name in group.topics()}
        return {
            name: None if topic is None else (topic.id, len(topic.partitions))
            for name, topic in topics.items()
        }

    def _existing(self, names: Iterable[str]) -> list[Topic]:
        topics = (self.topics.topic(name) for name in sorted(names))
        return [topic for topic in topics if topic is not None]

    # Regular expressions.

    def _refresh_regexes(self, group: ConsumerGroup) -> None:
        """Resolve the group's expressions after this heartbeat, if it is time to."""
        regexes = group.regexes_in_use()
        is_due = group.regexes.are_due(
            regexes,
            [topic.id for topic in self.topics.topics()] if regexes else (),
            self._coordinator.now_ms(),
            self.config.regex_refresh_interval_ms,
        )
        group.regexes.keep(regexes)
        if is_due:
            self.agenda.defer(partial(self._resolve_regexes, group))

    def _resolve_regexes(self, group: ConsumerGroup) -> None:
        if not group.is_dead:
            topic_ids = {topic.name: topic.id for topic in self.topics.topics()}
            now_ms = self._coordinator.now_ms()
            has_changed = group.regexes.resolve(group.regexes_in_use(), topic_ids, now_ms)
            if has_changed or self._metadata(group) != group.metadata:
                self._raise_epoch(group)

    # The target.

    def _may_assign(self, group: ConsumerGroup) -> bool:
        interval_ms = self.config.assignment_interval_ms()
        return (
            group.assigned_ms is None
            or self._coordinator.now_ms() - group.assigned_ms >= interval_ms
        )

    def _assign(self, group: ConsumerGroup) -> None:
        """Compute who should have which partition."""
        partitions: dict[UUID, int] = {}
        readers = []
        for member in group.members.values():
            topics = self._existing(group.topics_of(member))
            readers.append(Reader(member.member_id, member.instance_id, {one.id for one in topics}))
            partitions.update((topic.id, len(topic.partitions)) for topic in topics)
        group.target = ASSIGNORS[group.protocol](readers, partitions, group.target)
        group.assignment_epoch = group.epoch
        group.assigned_ms = self._coordinator.now_ms()

    def _reconcile(
        self, group: ConsumerGroup, member: ConsumerMember, beat: Beat, has_new_subscription: bool
    ) -> None:
        following = next_step(
            member,
            target_epoch=group.assignment_epoch,
            target=group.target.get(member.member_id, ()),
            topic_ids={topic.id for topic in self._existing(group.topics_of(member))},
            has_new_subscription=has_new_subscription,
            owned=beat.owned,
            is_free=partial(group.is_free_for, member),
        )
        if following is not None:
            group.move(member, following)
            self._expect_revocation(group, member)

    # Members that leave.

    def _leave(self, beat: Beat) -> BeatAnswer:
        group = self.group(beat.group_id)
        if group is None:
            raise _unknown(beat.member_id)
        if beat.instance_id is None:
            member = group.members.get(beat.member_id)
        else:
            member = group.static_member(beat.instance_id)
            self._check_instance(member, beat)
        if member is None:
            raise _unknown(beat.member_id)
        if beat.epoch == AWAY:
            # Its session goes on: it is removed if it does not come back.
            group.move(member, away(member))
            self._check_revocation(group, member)
        else:
            self.remove_member(group, member)
        return BeatAnswer(beat.member_id, beat.epoch)

    def remove_by_id(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        """Remove a member as tools do, with LeaveGroup."""
        if instance_id is None:
            member = group.members.get(member_id)
        else:
            member = group.static_member(instance_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if instance_id is not None and member_id not in ("", member.member_id):
            return ErrorCode.fenced_instance_id
        self.remove_member(group, member)
        return ErrorCode.none

    def remove_member(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Remove a member that has left, or was not heard of, or did not revoke in time."""
        with self.agenda:
            group.remove(member)
            self._raise_epoch(group)
            self._coordinator.heartbeats.check(group, member.member_id)
            self._check_revocation(group, member)

    # Time.

    def _expect_heartbeat(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        member.session_timeout_ms = self.config.session_timeout_ms
        self._coordinator.heartbeats.expect_next(group, member)

    def _expect_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Give the member its rebalance timeout to revoke partitions, if it has to."""
        expected = DelayedRevocation(self, group, member)
        member.revocation = expected
        self._check_revocation(group, member)
        if group.is_revoking(member):
            self._rebalances.try_complete_else_watch(expected, [_revocation_key(group, member)])

    def _check_revocation(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        self._rebalances.check_and_complete(_revocation_key(group, member))

    # Groups that move.

    def load(self, group: ConsumerGroup) -> None:
        """Go on with a group that another broker coordinated."""
        group.is_dead = False
        for member in group.members.values():
            self._expect_heartbeat(group, member)
            self._expect_revocation(group, member)

    def unload(self, group: ConsumerGroup) -> None:
        """Stop waiting for the group's members."""
        group.is_dead = True
        for member in group.members.values():
            self._coordinator.heartbeats.check(group, member.member_id)
            self._check_revocation(group, member)


def _revocation_key(group: ConsumerGroup, member: ConsumerMember) -> tuple[str, str, str]:
    return ("revocation", group.group_id, member.member_id)


def _new_member_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.invalid_request, message)


def _unknown(member_id: str) -> Refused:
    return Refused(ErrorCode.unknown_member_id, f"the group has no member {member_id!r}")
