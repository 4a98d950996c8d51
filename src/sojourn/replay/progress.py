"""Progress: the key side of the incremental engine, from when each requirement holds.

A requirement waits on one key for an offset. Its moment is max(submitted_ms, the first at_ms that
brought the key to the offset). What is known of one key, at time `now`:

    offset                      reached    the largest offset at or before now; all that matters
      9 |             o . . .              of the past
      7 |        o . .                     o   signals ahead, still after now: those that bring
      4 |   o . .                              more than every earlier one
      2 |---+ reached
        +---|---------------- at_ms        a requirement of offset 5 holds from the second o on
           now

    A. offset ≤ reached           it holds from its submission, and that is final
    B. a signal ahead covers it   it holds from that signal, or from its submission if later;
                                  an earlier signal may still arrive, and better it
    C. neither                    it is open

What comes out are candidates: a moment for each requirement that comes to have one, and again when
it gets a better one; of those for one requirement the least counts. None is given that comes after
the deadline. As time moves on, signals ahead fall into `reached`, and requirements go whose moment
is final or whose deadline is past.

Signals are taken in the order of their time, before the requirements of the same batch, so that
few candidates are bettered. Signals ahead and requirements are ordered by offset, in forests of
one tree a key: whom a signal concerns is one range of offsets.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # pragma: no cover - depends on what is installed
    from sojourn import _cython as cython

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.errors import OutOfRange
from sojourn.replay import journal
from sojourn.replay.slab import grown, in_order, integers, slab, text_parts

if cython.compiled:
    from cython.cimports.sojourn.core.forest import Forest
    from cython.cimports.sojourn.replay.alarms import Alarms
    from cython.cimports.sojourn.replay.texts import Names, Texts
else:
    from sojourn.core.forest import Forest
    from sojourn.replay.alarms import Alarms
    from sojourn.replay.texts import Names, Texts

REQUIREMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("offset", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
CANDIDATES = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("moment_ms", pa.int64()),
    ]
)

_ENTRY = "Pent"
SNAPSHOT = "Psnp"
_KEYS = pa.schema(
    [("key", pa.large_string()), ("reached", pa.int64()), ("busy_ms", pa.int64())]
)  # reached is null while nothing was
_AHEAD = pa.schema([("key", pa.int32()), ("offset", pa.int64()), ("at_ms", pa.int64())])
_NEEDS = pa.schema(
    [
        ("id", pa.large_string()),
        ("tag", pa.int64()),
        ("index", pa.int32()),
        ("key", pa.int32()),  # its row among the keys
        ("offset", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
    ]
)
SNAPSHOT_SCHEMAS = (_KEYS, _AHEAD, _NEEDS)
_LEAST_MS = -(2**63)


class Progress:
    """What is known of each key, and who waits for it.

    Rows are applied first, then time moves to `now_ms`; rows must be checked already, and none at
    or before the time it stands at. `now_ms=None` leaves the time where it is.

    A key is remembered for ever by its largest offset, unless `forget_keys_after_ms` is given: then
    it is forgotten when it had neither news nor anyone waiting for longer than that, and a
    requirement that comes after that sees no progress on it. Keys are swept out every now and then;
    one that is to be swept out counts as forgotten. Not for several threads at once.
    """

    __slots__ = (
        "_ahead",
        "_ahead_free",
        "_ahead_free_count",
        "_ahead_keys",
        "_ahead_ms",
        "_ahead_top",
        "_busy_ms",
        "_deadlines",
        "_floor_ms",
        "_forget_ms",
        "_forgets",
        "_fresh",
        "_fresh_ahead",
        "_fresh_ahead_count",
        "_fresh_count",
        "_gone",
        "_gone_count",
        "_has_reached",
        "_ids",
        "_indexes",
        "_keep_ms",
        "_keys",
        "_names",
        "_need_free",
        "_need_free_count",
        "_need_top",
        "_needs",
        "_now_ms",
        "_out_count",
        "_out_moments",
        "_out_nodes",
        "_reached",
        "_roots",
        "_roots_ahead",
        "_row_count",
        "_row_moments",
        "_row_numbers",
        "_started",
        "_submitted_ms",
        "_sweep_ms",
        "_tags",
        "_work",
    )

    def __init__(self, *, forget_keys_after_ms: int | None = None) -> None:
        self._forget_ms = forget_keys_after_ms
        self._forgets = forget_keys_after_ms is not None
        self._keep_ms = min(forget_keys_after_ms or 0, -_LEAST_MS - 1)
        self._floor_ms = _LEAST_MS + self._keep_ms
        self._sweep_ms: int | None = None  # when to look next for keys to forget
        self._started = False
        self._now_ms = 0
        # By key.
        self._names = Names()
        self._reached = slab(0, "q")
        self._has_reached = slab(0, "B")
        self._busy_ms = slab(0, "q")
        self._roots = slab(0, "i")
        self._roots_ahead = slab(0, "i")
        # By requirement, from 1 on; the free ones are linked.
        self._needs = Forest()
        self._ids = Texts()
        self._tags = slab(1, "q")
        self._indexes = slab(1, "i")
        self._keys = slab(1, "i")  # -1 for a free one
        self._submitted_ms = slab(1, "q")
        self._deadlines = Alarms()
        self._need_top = 0
        self._need_free = 0
        self._need_free_count = 0
        # By signal ahead, from 1 on.
        self._ahead = Forest()
        self._ahead_keys = slab(1, "i")
        self._ahead_ms = Alarms()
        self._ahead_top = 0
        self._ahead_free = 0
        self._ahead_free_count = 0
        # What happened in this batch: nodes that are new, nodes that went, what comes out.
        self._fresh = slab(0, "i")
        self._fresh_count = 0
        self._fresh_ahead = slab(0, "i")
        self._fresh_ahead_count = 0
        self._gone = slab(16, "i")
        self._gone_count = 0
        self._work = slab(16, "i")
        self._out_nodes = slab(16, "i")
        self._out_moments = slab(16, "q")
        self._out_count = 0
        self._row_numbers = slab(0, "i")
        self._row_moments = slab(0, "q")
        self._row_count = 0

    @property
    def now_ms(self) -> int | None:
        """The time it stands at; None before the first."""
        return self._now_ms if self._started else None

    @property
    def keys(self) -> int:
        """How many keys are known."""
        return self._names.count

    @property
    def sweep_ms(self) -> int | None:
        """When to be told the time next, though nothing arrives: keys may have to be forgotten."""
        return self._sweep_ms if self.keys else None

    @property
    def nbytes(self) -> int:
        """How much memory it takes; of a node of a forest 20 bytes, 8 of them its key."""
        by_key = self._reached.nbytes + self._has_reached.nbytes + self._busy_ms.nbytes
        by_key += self._roots.nbytes + self._roots_ahead.nbytes + self._names.nbytes
        by_need = self._tags.nbytes + self._indexes.nbytes + self._keys.nbytes + self._ids.nbytes
        by_need += self._submitted_ms.nbytes + self._deadlines.nbytes
        by_signal = self._ahead_keys.nbytes + self._ahead_ms.nbytes
        forests = (self._needs.key_slab.nbytes + self._ahead.key_slab.nbytes) * 5 // 2
        batch = self._fresh.nbytes + self._fresh_ahead.nbytes + self._gone.nbytes
        batch += self._work.nbytes + self._out_nodes.nbytes + self._out_moments.nbytes
        batch += self._row_numbers.nbytes + self._row_moments.nbytes
        return int(by_key + by_need + by_signal + forests + batch)

    def __len__(self) -> int:
        """How many requirements are open, or may still get a better moment."""
        return self._need_top - self._need_free_count

    def apply(
        self,
        requirements: pa.RecordBatch | None,
        signals: pa.RecordBatch | None,
        now_ms: int | None,
        since_ms: int | None = None,
    ) -> pa.RecordBatch:
        """Take the rows in, move time to `now_ms`, return what candidates there are now.

        `since_ms`: a time before all rows, to be told first; keys may be forgotten by then.
        """
        self._begin(since_ms, now_ms)
        self._take_rows(requirements, signals, now_ms)
        candidates = self._candidates(requirements)
        self._move(now_ms)
        return candidates

    def replay(self, entry: Any) -> None:
        """Apply what the entry holds, leaving out what would come of it."""
        (has_now, now, has_since, since), (requirements, signals) = journal.unpack(
            _ENTRY, entry, [REQUIREMENTS, SIGNALS]
        )
        now_ms = now if has_now else None
        self._begin(since if has_since else None, now_ms)
        self._take_rows(requirements, signals, now_ms)
        self._move(now_ms)

    @staticmethod
    def entry(
        requirements: pa.RecordBatch | None,
        signals: pa.RecordBatch | None,
        now_ms: int | None,
        since_ms: int | None = None,
    ) -> bytes:
        """Return what `apply` is given as bytes, for `replay`."""
        batches = [
            journal.in_schema(requirements, REQUIREMENTS),
            journal.in_schema(signals, SIGNALS),
        ]
        times = [int(now_ms is not None), now_ms or 0, int(since_ms is not None), since_ms or 0]
        return journal.pack(_ENTRY, times, batches)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        numbers = np.flatnonzero(
            np.asarray(self._names.texts._sizes)[: self._names.texts.places] >= 0
        )
        place = np.zeros(self._names.texts.places + 1, dtype=np.int32)
        place[numbers] = np.arange(len(numbers))
        none = np.asarray(self._has_reached)[numbers] == 0
        keys = pa.record_batch(
            [
                self._names.texts.column(integers(numbers, "i"), pa.large_string()),
                pa.array(np.asarray(self._reached)[numbers], mask=none),
                pa.array(np.asarray(self._busy_ms)[numbers]),
            ],
            schema=_KEYS,
        )
        nodes = 1 + np.flatnonzero(np.asarray(self._ahead_keys)[1 : self._ahead_top + 1] >= 0)
        ahead = pa.record_batch(
            [
                pa.array(place[np.asarray(self._ahead_keys)[nodes]]),
                pa.array(np.asarray(self._ahead.key_slab)[nodes]),
                pa.array(np.asarray(self._ahead_ms.times_ms)[nodes]),
            ],
            schema=_AHEAD,
        )
        nodes = 1 + np.flatnonzero(np.asarray(self._keys)[1 : self._need_top + 1] >= 0)
        needs = pa.record_batch(
            [
                self._ids.column(integers(nodes, "i"), pa.large_string()),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(np.asarray(self._indexes)[nodes]),
                pa.array(place[np.asarray(self._keys)[nodes]]),
                pa.array(np.asarray(self._needs.key_slab)[nodes]),
                pa.array(np.asarray(self._submitted_ms)[nodes]),
                pa.array(np.asarray(self._deadlines.times_ms)[nodes]),
            ],
            schema=_NEEDS,
        )
        facts = [
            int(self._started),
            self._now_ms,
            -1 if self._forget_ms is None else self._forget_ms,
            int(self._sweep_ms is not None),
            self._sweep_ms or 0,
        ]
        return journal.pack(SNAPSHOT, facts, [keys, ahead, needs])

    @classmethod
    def restore(cls, data: Any) -> Progress:
        """Return one that goes on for ever as the one that gave the snapshot would."""
        facts, batches = journal.unpack(SNAPSHOT, data, SNAPSHOT_SCHEMAS)
        self = cls(forget_keys_after_ms=None if facts[2] < 0 else facts[2])
        self._fill(facts, *batches)
        return self

    def __repr__(self) -> str:
        return f"<Progress now_ms={self.now_ms} keys={self.keys} requirements={len(self)}>"

    # A batch on its way.

    def _begin(self, since_ms: int | None, now_ms: int | None) -> None:
        self._check_now_ms(now_ms)
        if since_ms is not None and (not self._started or since_ms > self._now_ms):
            self._move(since_ms)

    def _check_now_ms(self, now_ms: int | None) -> None:
        if now_ms is not None and self._started and now_ms < self._now_ms:
            raise OutOfRange(
                f"now_ms must be ≥ {self._now_ms}, got {now_ms}; time does not go back"
            )

    def _take_rows(
        self, requirements: pa.RecordBatch | None, signals: pa.RecordBatch | None, now_ms: Any
    ) -> None:
        self._row_count = self._out_count = 0
        if signals is not None and len(signals):
            starts, data = text_parts(signals.column("key"))
            keys = self._names.look_up(starts, data, len(signals), True)
            at_ms = integers(signals.column("at_ms"))
            self._reserve_keys()
            self._reserve_ahead(len(signals))
            self._hear(keys, integers(signals.column("offset")), at_ms, in_order(at_ms))
        if requirements is not None and len(requirements):
            starts, data = text_parts(requirements.column("key"))
            keys = self._names.look_up(starts, data, len(requirements), True)
            self._reserve_keys()
            self._reserve_needs(len(requirements))
            if len(self._row_numbers) < len(requirements):
                self._row_numbers = slab(len(requirements), "i")
                self._row_moments = slab(len(requirements), "q")
            id_starts, id_data = text_parts(requirements.column("id"))
            self._need(
                id_starts,
                id_data,
                integers(requirements.column("tag")),
                integers(requirements.column("index"), "i"),
                keys,
                integers(requirements.column("offset")),
                integers(requirements.column("submitted_ms")),
                integers(requirements.column("deadline_ms")),
                now_ms is not None,
                now_ms or 0,
            )
            self._release_keys(keys)

    def _candidates(self, requirements: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return what came out: of requirements that waited, and of those just arrived."""
        parts = []
        if self._out_count:
            nodes = np.asarray(self._out_nodes[: self._out_count])
            keys = np.asarray(self._keys)[nodes]
            columns = [
                self._ids.column(integers(nodes, "i"), pa.string()),
                pa.array(np.asarray(self._tags)[nodes]),
                pa.array(np.asarray(self._indexes)[nodes]),
                self._names.texts.column(integers(keys, "i"), pa.string()),
                pa.array(np.array(self._out_moments[: self._out_count])),
            ]
            parts.append(pa.record_batch(columns, schema=CANDIDATES))
        if self._row_count and requirements is not None:
            given = requirements.select(CANDIDATES.names[:4])
            if self._row_count < len(requirements):
                numbers = np.asarray(self._row_numbers[: self._row_count])
                given = given.take(pa.array(numbers))
            moments = pa.array(np.array(self._row_moments[: self._row_count]))
            given = pa.record_batch([*given.columns, moments], names=CANDIDATES.names)
            parts.append(journal.in_schema(given, CANDIDATES))
        if not parts:
            return pa.RecordBatch.from_pylist([], CANDIDATES)
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _move(self, now_ms: int | None) -> None:
        """Move time, if it is to move; see to the alarms of what is new in any case."""
        self._set_alarms(now_ms)
        if now_ms is None:
            return
        self._started = True
        self._now_ms = now_ms
        self._collapse(self._ahead_ms.due(now_ms))
        self._deadlines.clear_many(self._gone[: self._gone_count])
        self._gone_count = 0
        self._drop(self._deadlines.due(now_ms))
        if self._forget_ms is not None and (self._sweep_ms is None or now_ms >= self._sweep_ms):
            self._sweep_ms = min(now_ms + max(self._forget_ms // 4, 1), -_LEAST_MS - 1)
            if now_ms - self._forget_ms >= _LEAST_MS:
                self._forget(now_ms - self._forget_ms)

    def _set_alarms(self, now_ms: int | None) -> None:
        """Set the alarms of new nodes; signals ahead that are past by now collapse at once."""
        self._ahead_ms.clear_many(self._gone[: self._gone_count])
        self._free_outdone()
        if self._fresh_ahead_count:
            fresh = np.asarray(self._fresh_ahead[: self._fresh_ahead_count])
            fresh = fresh[np.asarray(self._ahead_keys)[fresh] >= 0]
            at_ms = np.asarray(self._ahead_ms.times_ms)[fresh]
            if now_ms is not None:
                self._collapse(integers(fresh[at_ms <= now_ms], "i"))
                fresh = fresh[at_ms > now_ms]
                at_ms = at_ms[at_ms > now_ms]
            self._ahead_ms.set_many(integers(fresh, "i"), integers(at_ms), self._start_ms(now_ms))
            self._fresh_ahead_count = 0
        if self._fresh_count:
            fresh = np.asarray(self._fresh[: self._fresh_count])
            fresh = fresh[np.asarray(self._keys)[fresh] >= 0]
            times_ms = np.asarray(self._deadlines.times_ms)[fresh]
            start_ms = self._start_ms(now_ms)
            self._deadlines.set_many(integers(fresh, "i"), integers(times_ms), start_ms)
            self._fresh_count = 0
        self._deadlines.clear_many(self._gone[: self._gone_count])
        self._gone_count = 0

    def _fill(
        self,
        facts: tuple[int, ...],
        keys: pa.RecordBatch,
        ahead: pa.RecordBatch,
        needs: pa.RecordBatch,
    ) -> None:
        """Put what was in a snapshot into a new one."""
        self._started = bool(facts[0])
        self._now_ms = facts[1]
        self._sweep_ms = facts[4] if facts[3] else None
        starts, names = text_parts(keys.column("key"))
        self._names.look_up(starts, names, len(keys), True)
        self._reserve_keys()
        reached = keys.column("reached")
        np.asarray(self._reached)[: len(keys)] = reached.fill_null(0).to_numpy()
        np.asarray(self._has_reached)[: len(keys)] = reached.is_valid().to_numpy(
            zero_copy_only=False
        )
        np.asarray(self._busy_ms)[: len(keys)] = keys.column("busy_ms").to_numpy()
        self._reserve_ahead(len(ahead))
        self._reserve_needs(len(needs))
        self._plant_ahead(
            integers(ahead.column("key"), "i"),
            integers(ahead.column("offset")),
            integers(ahead.column("at_ms")),
        )
        id_starts, id_data = text_parts(needs.column("id"))
        self._plant_needs(
            id_starts,
            id_data,
            integers(needs.column("tag")),
            integers(needs.column("index"), "i"),
            integers(needs.column("key"), "i"),
            integers(needs.column("offset")),
            integers(needs.column("submitted_ms")),
            integers(needs.column("deadline_ms")),
        )
        self._set_alarms(None)

    def _start_ms(self, now_ms: int | None) -> int | None:
        return self.now_ms if now_ms is None else now_ms

    def _reserve_keys(self) -> None:
        count = self._names.texts.places
        if count > len(self._reached):
            self._reached = grown(self._reached, count, "q")
            self._busy_ms = grown(self._busy_ms, count, "q")
            self._has_reached = grown(self._has_reached, count, "B")
            self._roots = grown(self._roots, count, "i")
            self._roots_ahead = grown(self._roots_ahead, count, "i")

    def _reserve_ahead(self, more: int) -> None:
        top = self._ahead_top + max(0, more - self._ahead_free_count)
        if top >= len(self._ahead_keys):
            self._ahead_keys = grown(self._ahead_keys, top + 1, "i")
            top = len(self._ahead_keys) - 1
            self._ahead.reserve(top)
            self._ahead_ms.reserve(top + 1)
        if self._fresh_ahead_count + more > len(self._fresh_ahead):
            self._fresh_ahead = grown(self._fresh_ahead, self._fresh_ahead_count + more, "i")

    def _reserve_needs(self, more: int) -> None:
        top = self._need_top + max(0, more - self._need_free_count)
        if top >= len(self._keys):
            self._keys = grown(self._keys, top + 1, "i")
            top = len(self._keys) - 1
            self._tags = grown(self._tags, top + 1, "q")
            self._indexes = grown(self._indexes, top + 1, "i")
            self._submitted_ms = grown(self._submitted_ms, top + 1, "q")
            self._ids.reserve(top + 1)
            self._needs.reserve(top)
            self._deadlines.reserve(top + 1)
        if self._fresh_count + more > len(self._fresh):
            self._fresh = grown(self._fresh, self._fresh_count + more, "i")

    # The loops.

    def _hear(self, keys: Any, offsets: Any, at_ms: Any, order: Any) -> None:
        """Take signals in, in the order of their time."""
        for n in range(len(order)):
            row = order[n]
            self._hear_one(keys[row], offsets[row], at_ms[row])

    def _hear_one(self, key: int, offset: int, at_ms: int) -> bool:
        """Take a signal in; say whether it was news."""
        self._note_busy(key, at_ms)
        bounded = self._has_reached[key] != 0
        bound = self._reached[key]
        if bounded and bound >= offset:
            return False
        # The last signal ahead at or before this one: if it brings as much, this one is no news.
        earlier = 0
        here = self._roots_ahead[key]
        while here:
            if self._ahead_ms.times_ms[here] <= at_ms:
                earlier = here
                here = self._ahead.links[2 * here + 1]
            else:
                here = self._ahead.links[2 * here]
        if earlier:
            bounded = True
            bound = self._ahead.keys[earlier]
            if bound >= offset:
                return False
        # Those at or after it that bring no more are no news any longer.
        while True:
            later = 0
            here = self._roots_ahead[key]
            while here:
                if self._ahead_ms.times_ms[here] >= at_ms:
                    later = here
                    here = self._ahead.links[2 * here]
                else:
                    here = self._ahead.links[2 * here + 1]
            if later == 0 or self._ahead.keys[later] > offset:
                break
            self._remove_ahead(key, later)
        node = self._new_ahead(key, at_ms)
        self._roots_ahead[key] = self._ahead.insert(self._roots_ahead[key], node, offset)
        if self._roots[key]:
            self._improve(key, bounded, bound, offset, at_ms)
        return True

    def _remove_ahead(self, key: int, node: int) -> None:
        """This signal is no news; it is freed with the others: no node is new twice in a batch."""
        self._roots_ahead[key] = self._ahead.remove(self._roots_ahead[key], node)
        self._ahead_keys[node] = -1
        self._note_gone(node)

    def _free_outdone(self) -> None:
        """Free the signals ahead that are no news any longer."""
        for n in range(self._gone_count):
            self._free_ahead(self._gone[n])
        self._gone_count = 0

    def _improve(self, key: int, bounded: bool, bound: int, offset: int, at_ms: int) -> None:
        """Requirements with bound < offset ≤ the signal's hold from the signal on: say so."""
        self._work[0] = self._roots[key]
        count = 1
        done = 0
        while done < count:
            node = self._work[done]
            done += 1
            if count + 2 > len(self._work):
                self._work = grown(self._work, count + 2, "i")
            above = not bounded or self._needs.keys[node] > bound
            below = self._needs.keys[node] <= offset
            if above and self._needs.links[2 * node]:
                self._work[count] = self._needs.links[2 * node]
                count += 1
            if below and self._needs.links[2 * node + 1]:
                self._work[count] = self._needs.links[2 * node + 1]
                count += 1
            if above and below:
                moment_ms = at_ms if at_ms > self._submitted_ms[node] else self._submitted_ms[node]
                if moment_ms <= self._deadlines.times_ms[node]:
                    if self._out_count == len(self._out_nodes):
                        self._out_nodes = grown(self._out_nodes, self._out_count + 1, "i")
                        self._out_moments = grown(self._out_moments, len(self._out_nodes), "q")
                    self._out_nodes[self._out_count] = node
                    self._out_moments[self._out_count] = moment_ms
                    self._out_count += 1

    def _need(
        self,
        id_starts: Any,
        id_data: Any,
        tags: Any,
        indexes: Any,
        keys: Any,
        offsets: Any,
        submitted_ms: Any,
        deadlines_ms: Any,
        has_now: bool,
        now_ms: int,
    ) -> None:
        """Take requirements in; the letters are those at the head of the file."""
        for n in range(len(keys)):
            key = keys[n]
            offset = offsets[n]
            start_ms = submitted_ms[n]
            self._note_busy(key, start_ms)
            if self._has_reached[key] and self._reached[key] >= offset:  # A
                self._row_numbers[self._row_count] = n
                self._row_moments[self._row_count] = start_ms
                self._row_count += 1
                continue
            covering = 0
            here = self._roots_ahead[key]
            while here:
                if self._ahead.keys[here] >= offset:
                    covering = here
                    here = self._ahead.links[2 * here]
                else:
                    here = self._ahead.links[2 * here + 1]
            if covering:  # B
                at_ms = self._ahead_ms.times_ms[covering]
                moment_ms = at_ms if at_ms > start_ms else start_ms
                if moment_ms <= deadlines_ms[n]:
                    self._row_numbers[self._row_count] = n
                    self._row_moments[self._row_count] = moment_ms
                    self._row_count += 1
                if at_ms <= start_ms or (has_now and at_ms <= now_ms):
                    continue  # final
            if has_now and deadlines_ms[n] <= now_ms:
                continue
            node = self._new_need(key, tags[n], indexes[n], start_ms, deadlines_ms[n])
            self._ids.put(node, id_data, id_starts[n], id_starts[n + 1])
            self._roots[key] = self._needs.insert(self._roots[key], node, offset)

    def _collapse(self, nodes: Any) -> None:
        """These signals are ahead no longer: their keys have reached what they bring."""
        for n in range(len(nodes)):
            node = nodes[n]
            key = self._ahead_keys[node]
            offset = self._ahead.keys[node]
            if not self._has_reached[key] or self._reached[key] < offset:
                self._has_reached[key] = 1
                self._reached[key] = offset
            self._roots_ahead[key] = self._ahead.remove(self._roots_ahead[key], node)
            self._free_ahead(node)
            if self._roots[key]:
                self._roots[key] = self._needs.cut(self._roots[key], self._reached[key])
                if self._needs.cut_off:
                    self._free_tree(self._needs.cut_off)

    def _drop(self, nodes: Any) -> None:
        """The deadlines of these requirements are past."""
        for n in range(len(nodes)):
            node = nodes[n]
            key = self._keys[node]
            self._roots[key] = self._needs.remove(self._roots[key], node)
            self._free_need(node)
            if self._deadlines.times_ms[node] > self._busy_ms[key]:
                self._busy_ms[key] = self._deadlines.times_ms[node]
            self._release_key(key)

    def _free_tree(self, root: int) -> None:
        self._work[0] = root
        count = 1
        done = 0
        while done < count:
            node = self._work[done]
            done += 1
            if count + 2 > len(self._work):
                self._work = grown(self._work, count + 2, "i")
            if self._needs.links[2 * node]:
                self._work[count] = self._needs.links[2 * node]
                count += 1
            if self._needs.links[2 * node + 1]:
                self._work[count] = self._needs.links[2 * node + 1]
                count += 1
            self._note_gone(node)
            self._free_need(node)

    def _note_busy(self, key: int, at_ms: int) -> None:
        """The key has news, or somebody who waits; what it reached too long before is forgotten."""
        if self._roots[key] == 0:
            if (
                self._forgets
                and at_ms > self._floor_ms  # so that the difference has 64 bits
                and self._busy_ms[key] < at_ms - self._keep_ms
            ):
                self._has_reached[key] = 0
                while self._roots_ahead[key]:
                    self._remove_ahead(key, self._roots_ahead[key])
            if not self._has_reached[key] and self._roots_ahead[key] == 0:
                self._busy_ms[key] = at_ms
        if at_ms > self._busy_ms[key]:
            self._busy_ms[key] = at_ms

    def _forget(self, before_ms: int) -> None:
        """Forget keys without waiters or news since then."""
        for key in range(self._names.texts.places):
            if (
                self._names.texts.holds(key)
                and self._roots[key] == 0
                and self._roots_ahead[key] == 0
                and self._busy_ms[key] <= before_ms
            ):
                self._has_reached[key] = 0
                self._release_key(key)

    def _release_keys(self, keys: Any) -> None:
        for n in range(len(keys)):
            if self._names.texts.holds(keys[n]):
                self._release_key(keys[n])

    def _release_key(self, key: int) -> None:
        """Let go of the key if there is nothing to know of it."""
        if not (self._has_reached[key] or self._roots[key] or self._roots_ahead[key]):
            self._busy_ms[key] = 0
            self._names.remove(key)

    def _plant_ahead(self, keys: Any, offsets: Any, at_ms: Any) -> None:
        for n in range(len(keys)):
            node = self._new_ahead(keys[n], at_ms[n])
            root = self._roots_ahead[keys[n]]
            self._roots_ahead[keys[n]] = self._ahead.insert(root, node, offsets[n])

    def _plant_needs(
        self,
        id_starts: Any,
        id_data: Any,
        tags: Any,
        indexes: Any,
        keys: Any,
        offsets: Any,
        submitted_ms: Any,
        deadlines_ms: Any,
    ) -> None:
        for n in range(len(keys)):
            key = keys[n]
            node = self._new_need(key, tags[n], indexes[n], submitted_ms[n], deadlines_ms[n])
            self._ids.put(node, id_data, id_starts[n], id_starts[n + 1])
            self._roots[key] = self._needs.insert(self._roots[key], node, offsets[n])

    # Nodes come and go. The link to the left leads from one free node to the next.

    def _new_ahead(self, key: int, at_ms: int) -> int:
        node = self._ahead_free
        if node:
            self._ahead_free = self._ahead.links[2 * node]
            self._ahead_free_count -= 1
        else:
            self._ahead_top += 1
            node = self._ahead_top
        self._ahead_keys[node] = key
        self._ahead_ms.times_ms[node] = at_ms
        self._fresh_ahead[self._fresh_ahead_count] = node
        self._fresh_ahead_count += 1
        return node

    def _free_ahead(self, node: int) -> None:
        self._ahead_keys[node] = -1
        self._ahead.links[2 * node] = self._ahead_free
        self._ahead_free = node
        self._ahead_free_count += 1

    def _new_need(self, key: int, tag: int, index: int, submitted_ms: int, deadline_ms: int) -> int:
        node = self._need_free
        if node:
            self._need_free = self._needs.links[2 * node]
            self._need_free_count -= 1
        else:
            self._need_top += 1
            node = self._need_top
        self._keys[node] = key
        self._tags[node] = tag
        self._indexes[node] = index
        self._submitted_ms[node] = submitted_ms
        self._deadlines.times_ms[node] = deadline_ms
        self._fresh[self._fresh_count] = node
        self._fresh_count += 1
        return node

    def _free_need(self, node: int) -> None:
        self._keys[node] = -1
        self._ids.drop(node)
        self._needs.links[2 * node] = self._need_free
        self._need_free = node
        self._need_free_count += 1

    def _note_gone(self, node: int) -> None:
        """The node's alarm is to be taken back."""
        if self._gone_count == len(self._gone):
            self._gone = grown(self._gone, self._gone_count + 1, "i")
        self._gone[self._gone_count] = node
        self._gone_count += 1
