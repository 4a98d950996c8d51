"""The forest: very many ordered sets of numbered things in one slab, most of them tiny.

Each set is a treap: a search tree by key, and at the same time a heap by a weight that is a
scramble of the node's number, which keeps it balanced whatever the order of the keys:

         (7)          left of a node: lesser keys; right: greater
        /   \\         equal keys stand in the order they were put in
      (3)   (9)       below a node: lesser weights
        \\           a set is known by its root; 0 is the empty set, so nodes count from 1
        (5)

Putting in goes down one path, and so does cutting off all keys up to a bound. Taking out begins
at the node, which knows its parent, and needs no search. The parent of a root is 0, or below: a
number of its owner's, which every later root of the set inherits.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

if not cython.compiled:
    from sojourn.core.places import int_address, long_address, numbers

_LOW = 0xFFFFFFFF


class Forest:
    """Links, parents and keys of all nodes. Link 2n leads left from node n, 2n + 1 right.

    Node 0 is none; its two links are where a tree that is taken apart or put together hangs.

    Compiled, `links`, `parents` and `keys` are bare addresses into the slabs: to pass a typed
    view of a slab around counts references, atomically, and costs more than a walk down a tree.
    """

    __slots__ = ("_link_slab", "_parent_slab", "cut_off", "key_slab", "keys", "links", "parents")

    def __init__(self, nodes: int = 0) -> None:
        self._link_slab = numbers("i", 2 * nodes + 2)
        self._parent_slab = numbers("i", nodes + 1)
        self.key_slab = numbers("q", nodes + 1)
        self.links = int_address(self._link_slab)
        self.parents = int_address(self._parent_slab)
        self.keys = long_address(self.key_slab)
        self.cut_off = 0  # the root of what `cut` took away

    def reserve(self, nodes: int) -> None:
        """Make room for nodes up to this number."""
        room = len(self.key_slab)
        if nodes >= room:
            self.adopt(Forest(max(nodes, room + room // 2, 16)))

    def adopt(self, larger: Forest) -> None:
        """Go on in the slabs of a larger forest, which is empty. Allocates nothing."""
        for n in range(len(self.key_slab)):
            larger.keys[n] = self.keys[n]
            larger.parents[n] = self.parents[n]
            larger.links[2 * n] = self.links[2 * n]
            larger.links[2 * n + 1] = self.links[2 * n + 1]
        self._link_slab = larger._link_slab
        self._parent_slab = larger._parent_slab
        self.key_slab = larger.key_slab
        self.links = larger.links
        self.parents = larger.parents
        self.keys = larger.keys

    def insert(self, root: int, node: int, key: int) -> Any:
        """Put the node into the set with this root, behind equal keys; return its root now."""
        links = self.links
        keys = self.keys
        parents = self.parents
        keys[node] = key
        weight = _weight(node)
        parent = 0
        above = -1
        here = root
        while here and _weight(here) >= weight:
            parent = here
            above = 2 * here
            if keys[here] <= key:
                above += 1
            here = links[above]
        parents[node] = parent
        if parent == 0 and root:
            parents[node] = parents[root]
        self._split(here, key, 2 * node, 2 * node + 1, node, node)
        if above < 0:
            return node
        links[above] = node
        return root

    def remove(self, root: int, node: int) -> Any:
        """Take the node, which is in it, out of the set with this root; return its root now."""
        links = self.links
        parents = self.parents
        parent = parents[node]
        left = links[2 * node]
        right = links[2 * node + 1]
        at = 0
        if parent > 0:
            at = 2 * parent
            if links[at] != node:
                at += 1
        above = parent
        while left and right:
            if _weight(left) >= _weight(right):
                links[at] = left
                parents[left] = above
                above = left
                at = 2 * left + 1
                left = links[at]
            else:
                links[at] = right
                parents[right] = above
                above = right
                at = 2 * right
                right = links[at]
        if left == 0:
            left = right
        links[at] = left
        if left:
            parents[left] = above
        if parent > 0:
            return root
        return links[0]

    def cut(self, root: int, bound: int) -> Any:
        """Take all keys ≤ bound away, to the set `cut_off`; return the root of the others."""
        links = self.links
        parents = self.parents
        self._split(root, bound, 0, 1, 0, parents[root] if root else 0)
        self.cut_off = links[0]
        return links[1]

    def _split(
        self, here: int, bound: int, left: int, right: int, left_parent: int, right_parent: int
    ) -> None:
        """Hang what is below `here` on two links: keys ≤ bound on the left one, others right."""
        links = self.links
        keys = self.keys
        parents = self.parents
        while here:
            if keys[here] <= bound:
                links[left] = here
                parents[here] = left_parent
                left = 2 * here + 1
                left_parent = here
                here = links[left]
            else:
                links[right] = here
                parents[here] = right_parent
                right = 2 * here
                right_parent = here
                here = links[right]
        links[left] = 0
        links[right] = 0

    def first(self, root: int) -> int:
        """The first node of the set; 0 if it is empty."""
        links = self.links
        here = root
        while here and links[2 * here]:
            here = links[2 * here]
        return here

    def after(self, node: int) -> int:
        """The node that follows in its set; 0 behind the last."""
        links = self.links
        parents = self.parents
        here = links[2 * node + 1]
        if here:
            return self.first(here)
        here = node
        while parents[here] > 0:
            above = parents[here]
            if links[2 * above] == here:
                return above
            here = above
        return 0

    def unfold(self, root: int) -> int:
        """Make a row of the set, each node's right link leading to the next; return the first.

        The nodes are in no set then, and their parents mean nothing.
        """
        links = self.links
        links[1] = root
        at = 1
        here = root
        while here:
            left = links[2 * here]
            if left:  # it comes before: lift it
                links[2 * here] = links[2 * left + 1]
                links[2 * left + 1] = here
                links[at] = left
                here = left
            else:
                at = 2 * here + 1
                here = links[at]
        return links[1]


def _weight(node: int) -> int:
    """Scramble the number, the same way always."""
    mixed: Any = node
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & _LOW
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & _LOW
    return mixed ^ (mixed >> 16)  # type: ignore[no-any-return]
