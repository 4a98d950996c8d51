"""The forest: very many ordered sets of numbered things in one slab, most of them tiny.

Each set is a treap: a search tree by key, and at the same time a heap by a weight that is a
scramble of the node's number, which keeps it balanced whatever the order of the keys:

         (7)          left of a node: lesser keys; right: greater; equal keys by node
        /   \\         below a node: lesser weights
      (3)   (9)
        \\           a set is known by its root; 0 is the empty set, so nodes count from 1
        (5)

Finding, putting in and taking out go down one path; cutting off all keys up to a bound too.
"""

from __future__ import annotations

from typing import Any

from sojourn.replay.slab import grown, slab


class Forest:
    """Links and keys of all nodes. Link 2n leads left from node n, 2n + 1 right.

    Node 0 is none; its two links are where a tree that is taken apart or put together hangs.
    """

    __slots__ = ("cut_off", "keys", "links")

    def __init__(self) -> None:
        self.links = slab(2, "i")
        self.keys = slab(1, "q")
        self.cut_off = 0  # the root of what `cut` took away

    def reserve(self, nodes: int) -> None:
        """Make room for nodes up to this number."""
        if nodes >= len(self.keys):
            self.keys = grown(self.keys, nodes + 1, "q")
            self.links = grown(self.links, 2 * len(self.keys), "i")

    def insert(self, root: int, node: int, key: int) -> Any:
        """Put the node into the set with this root; return its root now."""
        links = self.links
        keys = self.keys
        keys[node] = key
        weight = _weight(node)
        above = -1
        here = root
        while here and _weight(here) >= weight:
            above = 2 * here
            if keys[here] < key or (keys[here] == key and here < node):
                above += 1
            here = links[above]
        left = 2 * node
        right = 2 * node + 1
        while here:
            if keys[here] < key or (keys[here] == key and here < node):
                links[left] = here
                left = 2 * here + 1
                here = links[left]
            else:
                links[right] = here
                right = 2 * here
                here = links[right]
        links[left] = 0
        links[right] = 0
        if above < 0:
            return node
        links[above] = node
        return root

    def remove(self, root: int, node: int) -> Any:
        """Take the node, which is in it, out of the set with this root; return its root now."""
        links = self.links
        keys = self.keys
        key = keys[node]
        above = -1
        here = root
        while here != node:
            above = 2 * here
            if keys[here] < key or (keys[here] == key and here < node):
                above += 1
            here = links[above]
        left = links[2 * node]
        right = links[2 * node + 1]
        at = 0
        while left and right:
            if _weight(left) >= _weight(right):
                links[at] = left
                at = 2 * left + 1
                left = links[at]
            else:
                links[at] = right
                at = 2 * right
                right = links[at]
        links[at] = left if left else right
        if above < 0:
            return links[0]
        links[above] = links[0]
        return root

    def cut(self, root: int, bound: int) -> Any:
        """Take all keys ≤ bound away, to the set `cut_off`; return the root of the others."""
        links = self.links
        keys = self.keys
        left = 0
        right = 1
        here = root
        while here:
            if keys[here] <= bound:
                links[left] = here
                left = 2 * here + 1
                here = links[left]
            else:
                links[right] = here
                right = 2 * here
                here = links[right]
        links[left] = 0
        links[right] = 0
        self.cut_off = links[0]
        return links[1]


def _weight(node: int) -> int:
    """Scramble the number, the same way always."""
    mixed: Any = node
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return mixed ^ (mixed >> 16)  # type: ignore[no-any-return]
