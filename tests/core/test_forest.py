"""The forest against sorted lists: itself where it is interpreted, in both builds by its users.

Compiled, its methods are out of Python's reach. There a purgatory is the way in: submitting puts
nodes in, cancelling takes one out, a signal cuts off, and `waiting` goes from node to node.
"""

from __future__ import annotations

import bisect
import math
import random

import pytest

import sojourn
from sojourn import DelayedOperation, ManualClock, Purgatory
from tests.seeds import seed

if not sojourn.compiled:
    from sojourn.core.forest import Forest, _weight

Pair = tuple[int, int]  # key, node


class Sets:
    """A few sets of one forest, each beside a sorted list of what should be in it."""

    def __init__(self, count: int, owners: bool) -> None:
        self.forest = Forest()
        self.owner = [-(n + 5) if owners else 0 for n in range(count)]
        self.roots = [0] * count
        self.lists: list[list[Pair]] = [[] for _ in range(count)]
        self.free: list[int] = []
        self.nodes = 0

    def insert(self, n: int, key: int) -> None:
        if self.free:
            node = self.free.pop()
        else:
            self.nodes += 1
            node = self.nodes
            self.forest.reserve(node)
        is_first = self.roots[n] == 0
        self.roots[n] = self.forest.insert(self.roots[n], node, key)
        if is_first:  # later roots inherit it
            self.forest.parents[node] = self.owner[n]
        at = bisect.bisect_right(self.lists[n], key, key=lambda pair: pair[0])
        self.lists[n].insert(at, (key, node))

    def remove(self, n: int, at: int) -> None:
        _, node = self.lists[n].pop(at)
        self.roots[n] = self.forest.remove(self.roots[n], node)
        self.free.append(node)

    def cut(self, n: int, bound: int) -> None:
        at = bisect.bisect_right(self.lists[n], bound, key=lambda pair: pair[0])
        expected, self.lists[n] = self.lists[n][:at], self.lists[n][at:]
        self.roots[n] = self.forest.cut(self.roots[n], bound)
        cut_off = self.forest.cut_off
        assert self.tree(cut_off, 0) == expected
        node = self.forest.unfold(cut_off)
        row = []
        while node:
            row.append(node)
            node = self.forest.links[2 * node + 1]
        assert row == [node for _, node in expected]
        self.free += row

    def check(self, n: int) -> None:
        assert self.tree(self.roots[n], self.owner[n]) == self.lists[n]
        node = self.forest.first(self.roots[n])
        row = []
        while node:
            row.append(node)
            node = self.forest.after(node)
        assert row == [node for _, node in self.lists[n]]

    def tree(self, root: int, parent: int) -> list[Pair]:
        """What is in it, in order; on the way its weights and parents are looked at."""
        if root == 0:
            return []
        assert self.forest.parents[root] == parent
        pairs: list[Pair] = []
        for side in (0, 1):
            child = self.forest.links[2 * root + side]
            assert child == 0 or _weight(child) <= _weight(root)
            pairs += self.tree(child, root)
            if side == 0:
                pairs.append((self.forest.keys[root], root))
        return pairs

    def depth(self, root: int) -> int:
        links = self.forest.links
        return 1 + max(self.depth(links[2 * root]), self.depth(links[2 * root + 1])) if root else 0


interpreted = pytest.mark.skipif(sojourn.compiled, reason="compiled, the nodes cannot be seen")


@interpreted
@pytest.mark.parametrize("owners", [False, True])
@pytest.mark.parametrize("keys", [1, 5, 1000])
def test_sets_are_what_sorted_lists_are(keys: int, owners: bool) -> None:
    rng = random.Random(seed())
    sets = Sets(4, owners)
    for step in range(1500):
        n = rng.randrange(4)
        what = rng.random()
        if what < 0.6 or not sets.lists[n]:
            sets.insert(n, rng.randrange(keys) - keys // 2)
        elif what < 0.9:
            sets.remove(n, rng.randrange(len(sets.lists[n])))
        elif what < 0.97:
            sets.cut(n, rng.randrange(keys) - keys // 2 - rng.choice((0, keys)))
        if step % 10 == 0:
            sets.check(n)
    for n in range(4):
        sets.check(n)
        sets.cut(n, keys)
        assert sets.roots[n] == 0


@interpreted
@pytest.mark.parametrize("order", ["rising", "falling", "equal", "random"])
def test_a_set_is_balanced_whatever_the_order(order: str) -> None:
    count = 2000
    keys = {
        "rising": range(count),
        "falling": range(count, 0, -1),
        "equal": [7] * count,
        "random": [n * 7919 % count for n in range(count)],
    }[order]
    sets = Sets(1, owners=False)
    for key in keys:
        sets.insert(0, key)
    assert sets.depth(sets.roots[0]) < 4 * math.log2(count)
    for _ in range(count // 2):  # what is left of it, too
        sets.remove(0, 0)
    sets.check(0)
    assert sets.depth(sets.roots[0]) < 4 * math.log2(count)


# In both builds.


@pytest.mark.parametrize("offsets", [1, 7, 10_000])
def test_those_who_wait_stand_by_offset_then_by_submission(offsets: int) -> None:
    rng = random.Random(seed())
    purgatory = Purgatory(clock=ManualClock())
    # Of each key: who waits, by offset, then as they came.
    expected: dict[str, list[tuple[int, DelayedOperation]]] = {"a": [], "b": []}

    def leave(operation: DelayedOperation) -> None:
        for key, places in expected.items():
            expected[key] = [place for place in places if place[1] is not operation]

    for step in range(3000):
        key = rng.choice("ab")
        what = rng.random()
        if what < 0.75 or not expected[key]:
            operation = DelayedOperation(100)
            low = purgatory.progress(key) or 0
            requires = [(key, low + 1 + rng.randrange(offsets)) for _ in range(rng.choice((1, 3)))]
            purgatory.try_complete_else_watch(operation, requires=requires, needed=1)
            for _, offset in requires:
                at = bisect.bisect_right(expected[key], offset, key=lambda place: place[0])
                expected[key].insert(at, (offset, operation))
        elif what < 0.98:
            _, operation = rng.choice(expected[key])
            assert operation.cancel()
            leave(operation)
        else:
            bound = rng.choice(expected[key])[0]
            completed = list(dict.fromkeys(op for offset, op in expected[key] if offset <= bound))
            assert purgatory.signal(key, bound) == len(completed)
            for operation in completed:
                assert operation.is_completed
                leave(operation)
        if step % 20 == 0:
            assert purgatory.waiting(key) == list(dict.fromkeys(op for _, op in expected[key]))
            assert purgatory.watched == sum(map(len, expected.values()))
    assert purgatory.signal("a", 2**62) == len({op for _, op in expected["a"]})
    assert purgatory.signal("b", 2**62) == len({op for _, op in expected["b"]})
    assert purgatory.watched == 0
