"""Assignors: which member should have which partition. They compute, and know no members' state.

uniform   every member has as many partitions as any other, as far as subscriptions allow; of
          what it had it keeps what it can

              one reads t, with 6 partitions         one 0 1 2 3 4 5
              two joins, and gets the last of one's  one 0 1 2        two 3 4 5
              three joins                            one 0 1          two 3 4      three 2 5

range     each topic is divided into ranges, in the order of the members' names, so that the same
          partitions of several topics are at the same member

              one, two and three read t and u        one 0 1          three 2 3    two 4 5
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from sojourn.kafka.groups.consumer.member import Place

Current = Mapping[str, Collection[Place]]
Assignment = dict[str, frozenset[Place]]


class Reader(NamedTuple):
    """A member, and the topics that it reads."""

    member_id: str
    instance_id: str | None
    topics: Collection[UUID]

    @property
    def name(self) -> tuple[bool, str]:
        """Orders members: first the static ones, which keep their names."""
        if self.instance_id is None:
            return (True, self.member_id)
        return (False, self.instance_id)


def by_range(readers: Sequence[Reader], partitions: Mapping[UUID, int], _: Current) -> Assignment:
    """Divide each topic among the members that read it; the first ones get one more."""
    target: dict[str, set[Place]] = {reader.member_id: set() for reader in readers}
    in_order = sorted(readers, key=lambda reader: reader.name)
    for topic, number in partitions.items():
        members = [reader.member_id for reader in in_order if topic in reader.topics]
        least, longer = divmod(number, len(members))
        start = 0
        for position, member in enumerate(members):
            end = start + least + (position < longer)
            target[member].update((topic, index) for index in range(start, end))
            start = end
    return {member: frozenset(places) for member, places in target.items()}


def uniform(
    readers: Sequence[Reader], partitions: Mapping[UUID, int], current: Current
) -> Assignment:
    """Keep, hand out, then move from those with most to those with fewest."""
    loads = _Loads(readers, partitions)
    for reader in readers:
        for place in sorted(current.get(reader.member_id, ())):
            loads.keep(reader.member_id, place)
    # Topics that few read have the least choice, so they come first.
    for topic in sorted(partitions, key=lambda topic: len(loads.readers(topic))):
        for index in range(partitions[topic]):
            loads.hand_out((topic, index))
    while loads.balance():
        pass
    return {member: frozenset(places) for member, places in loads.places.items()}


class _Loads:
    """How many partitions each member has, and who of a topic's readers has fewest."""

    def __init__(self, readers: Sequence[Reader], partitions: Mapping[UUID, int]) -> None:
        self.places: dict[str, set[Place]] = {reader.member_id: set() for reader in readers}
        self._partitions = partitions
        self._owned: set[Place] = set()
        self._order = {member: number for number, member in enumerate(self.places)}
        members_of: dict[UUID, list[str]] = {topic: [] for topic in partitions}
        for reader in readers:
            for topic in reader.topics:
                members_of[topic].append(reader.member_id)
        # Topics with the same readers share a heap of them: in most groups there is one.
        self._readers = {topic: tuple(members) for topic, members in members_of.items()}
        self._heaps = {
            members: [(0, self._order[member], member) for member in members]
            for members in set(self._readers.values())
        }
        self._heaps_of: dict[str, list[list[tuple[int, int, str]]]] = {
            member: [heap for members, heap in self._heaps.items() if member in members]
            for member in self.places
        }

    def readers(self, topic: UUID) -> tuple[str, ...]:
        return self._readers[topic]

    def keep(self, member: str, place: Place) -> None:
        """Let the member keep a partition, if it still reads it and nobody else has it."""
        topic, index = place
        is_there = index < self._partitions.get(topic, 0) and place not in self._owned
        if is_there and member in self._readers[topic]:
            self._add(member, place)

    def hand_out(self, place: Place) -> None:
        """Give a partition that nobody has to the reader with fewest."""
        if place not in self._owned:
            self._add(self._fewest(place[0]), place)

    def balance(self) -> bool:
        """Move partitions, the last ones first, to readers that have fewer; whether any moved."""
        has_moved = False
        for member in sorted(self.places, key=lambda one: -len(self.places[one])):
            for place in sorted(self.places[member], reverse=True):
                other = self._fewest(place[0])
                if len(self.places[other]) + 1 < len(self.places[member]):
                    self.places[member].remove(place)
                    self._queue(member)
                    self._add(other, place)
                    has_moved = True
        return has_moved

    def _add(self, member: str, place: Place) -> None:
        self.places[member].add(place)
        self._owned.add(place)
        self._queue(member)

    def _queue(self, member: str) -> None:
        entry = (len(self.places[member]), self._order[member], member)
        for heap in self._heaps_of[member]:
            heapq.heappush(heap, entry)

    def _fewest(self, topic: UUID) -> str:
        """The reader with fewest partitions; of several the one that joined first."""
        heap = self._heaps[self._readers[topic]]
        while True:
            number, _, member = heap[0]
            if number == len(self.places[member]):
                return member
            heapq.heappop(heap)  # it has more or fewer by now, and another entry


ASSIGNORS: Mapping[str, Callable[[Sequence[Reader], Mapping[UUID, int], Current], Assignment]] = {
    "uniform": uniform,
    "range": by_range,
}
