"""Progress: the key side of the incremental engine; it finds when each requirement begins to hold.

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
                                  an earlier signal may still arrive, and replace it
    C. neither                    it is open

The results are candidates: a moment for each requirement that gets one, and again when it gets an
earlier one; the earliest candidate of a requirement counts. A moment after the deadline is no
candidate. As time moves on, signals ahead become part of `reached`, and requirements are removed
when their moment is final or their deadline is past.

Signals are applied in the order of their time, before the requirements of the same batch, so that
few candidates are replaced. The exception is a signal that comes so long after all others of its
key that these are to be forgotten: it waits for the requirements that were submitted before it.
Signals ahead and requirements are ordered by offset, in forests with one tree for each key, so a
signal concerns one range of offsets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sojourn.replay import journal, schemas
from sojourn.replay.arrays import grown, integers, slab
from sojourn.replay.name_table import NameTable
from sojourn.replay.needs import Needs, RequirementRows
from sojourn.replay.nodes import NumberList
from sojourn.replay.signals_ahead import SignalRows, SignalsAhead
from sojourn.replay.times import check_forward

_ENTRY = "Pent"
SNAPSHOT = "Psnp"
SNAPSHOT_SCHEMAS = (schemas.HELD_KEYS, schemas.HELD_SIGNALS, schemas.HELD_REQUIREMENTS)
_LEAST_MS, _MOST_MS = -(2**63), 2**63 - 1


class Progress:
    """What is known of each key, and who waits for it.

    Rows are applied first, then time moves to `now_ms`; rows must be checked already, and none at
    or before the time it stands at. `now_ms=None` leaves the time where it is.

    A key is remembered for ever by its largest offset, unless `forget_keys_after_ms` is given: then
    it is forgotten when it had neither news nor anyone waiting for longer than that, and a
    requirement that comes after that sees no progress on it. Keys are swept out every now and then;
    one that is to be swept out counts as forgotten. Not for several threads at once.
    """

    def __init__(self, *, forget_keys_after_ms: int | None = None) -> None:
        self._forget_ms = forget_keys_after_ms
        self._keep_ms = forget_keys_after_ms or 0
        # What has news up to here is not forgotten: to subtract from it would need more bits.
        self._floor_ms = _MOST_MS if forget_keys_after_ms is None else _LEAST_MS + self._keep_ms
        self._sweep_ms: int | None = None  # when to look next for keys to forget
        self._started = False
        self._now_ms = 0
        # By key.
        self._names = NameTable()
        self._reached = slab(0, "q")
        self._has_reached = slab(0, "B")
        self._busy_ms = slab(0, "q")
        self._needs = Needs()
        self._ahead = SignalsAhead()
        # Of the requirements of this batch, those that have a moment.
        self._row_numbers = slab(0, "i")
        self._row_moments = slab(0, "q")
        self._row_count = 0
        # Of the signals of this batch, those that end what is known of their key.
        self._aside = NumberList()
        self._aside_taken = 0

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
        """How much memory it takes."""
        by_key = self._reached.nbytes + self._has_reached.nbytes + self._busy_ms.nbytes
        batch = self._row_numbers.nbytes + self._row_moments.nbytes
        parts = self._names.nbytes + self._needs.nbytes + self._ahead.nbytes + self._aside.nbytes
        return int(by_key + batch + parts)

    def __len__(self) -> int:
        """How many requirements are open, or may still get a better moment."""
        return len(self._needs)

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
            _ENTRY, entry, [schemas.REQUIREMENTS, schemas.SIGNALS]
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
            journal.in_schema(requirements, schemas.REQUIREMENTS),
            journal.in_schema(signals, schemas.SIGNALS),
        ]
        times = [int(now_ms is not None), now_ms or 0, int(since_ms is not None), since_ms or 0]
        return journal.pack(_ENTRY, times, batches)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        numbers = self._names.numbers()
        place_of_key = np.zeros(self._names.texts.places, dtype=np.int32)
        place_of_key[numbers] = np.arange(len(numbers))
        none = np.asarray(self._has_reached)[numbers] == 0
        keys = pa.record_batch(
            [
                self._names.column(integers(numbers, "i"), pa.large_string()),
                pa.array(np.asarray(self._reached)[numbers], mask=none),
                pa.array(np.asarray(self._busy_ms)[numbers]),
            ],
            schema=schemas.HELD_KEYS,
        )
        facts = [
            int(self._started),
            self._now_ms,
            -1 if self._forget_ms is None else self._forget_ms,
            int(self._sweep_ms is not None),
            self._sweep_ms or 0,
        ]
        parts = [keys, self._ahead.rows(place_of_key), self._needs.rows(place_of_key)]
        return journal.pack(SNAPSHOT, facts, parts)

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
        check_forward(now_ms, self.now_ms)
        if since_ms is not None and (not self._started or since_ms > self._now_ms):
            self._move(since_ms)

    def _take_rows(
        self, requirements: pa.RecordBatch | None, signals: pa.RecordBatch | None, now_ms: Any
    ) -> None:
        self._row_count = 0
        self._needs.clear_improved()
        self._aside.take_all()
        self._aside_taken = 0
        news = None
        if signals is not None and len(signals):
            news = SignalRows(signals, self._names.look_up(signals.column("key")))
            self._reserve_keys()
            self._ahead.reserve(len(signals))
            self._take_signals(news)
        if requirements is not None and len(requirements):
            wanted = RequirementRows(requirements, self._names.look_up(requirements.column("key")))
            self._reserve_keys()
            self._needs.reserve(len(requirements))
            if len(self._row_numbers) < len(requirements):
                self._row_numbers = slab(len(requirements), "i")
                self._row_moments = slab(len(requirements), "q")
            self._take_requirements(wanted, news, now_ms is not None, now_ms or 0)
            self._release_keys(wanted.keys)
        self._take_aside(news, _MOST_MS)

    def _candidates(self, requirements: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the candidates: of requirements that waited, and of those just arrived."""
        improved = self._needs.take_improved(self._names)
        parts = [] if improved is None else [improved]
        if self._row_count and requirements is not None:
            rows = requirements.select(schemas.CANDIDATES.names[:4])
            numbers = np.asarray(self._row_numbers[: self._row_count])
            if not np.array_equal(numbers, np.arange(len(requirements))):
                rows = rows.take(pa.array(numbers))
            moments = pa.array(np.array(self._row_moments[: self._row_count]))
            rows = pa.record_batch([*rows.columns, moments], names=schemas.CANDIDATES.names)
            parts.append(journal.in_schema(rows, schemas.CANDIDATES))
        return journal.joined(parts, schemas.CANDIDATES)

    def _move(self, now_ms: int | None) -> None:
        """Move time, if it is to move; see to the alarms of what is new in any case."""
        self._set_alarms(now_ms)
        if now_ms is None:
            return
        self._started = True
        self._now_ms = now_ms
        self._pass_by(self._ahead.due(now_ms))
        self._expire(self._needs.due(now_ms))
        if self._forget_ms is not None and (self._sweep_ms is None or now_ms >= self._sweep_ms):
            self._sweep_ms = min(now_ms + max(self._forget_ms // 4, 1), _MOST_MS)
            if now_ms - self._forget_ms >= _LEAST_MS:
                self._forget(now_ms - self._forget_ms)

    def _set_alarms(self, now_ms: int | None) -> None:
        """Set the alarms of new nodes; signals ahead that are past by now pass by at once."""
        start_ms = self.now_ms if now_ms is None else now_ms
        self._pass_by(self._ahead.set_alarms(now_ms, start_ms))
        self._needs.set_alarms(start_ms)

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
        self._names.look_up(keys.column("key"))
        self._reserve_keys()
        reached = keys.column("reached")
        np.asarray(self._reached)[: len(keys)] = reached.fill_null(0).to_numpy()
        np.asarray(self._has_reached)[: len(keys)] = reached.is_valid().to_numpy(
            zero_copy_only=False
        )
        np.asarray(self._busy_ms)[: len(keys)] = keys.column("busy_ms").to_numpy()
        self._ahead.fill(ahead)
        self._needs.fill(needs)

    def _reserve_keys(self) -> None:
        count = self._names.texts.places
        self._ahead.reserve_keys(count)
        self._needs.reserve_keys(count)
        if count > len(self._reached):
            self._reached = grown(self._reached, count, "q")
            self._busy_ms = grown(self._busy_ms, count, "q")
            self._has_reached = grown(self._has_reached, count, "B")

    # The loops.

    def _take_signals(self, rows: SignalRows) -> None:
        """Take signals in, in the order of their time, but set those aside that have to wait."""
        for n in range(len(rows.order)):
            row = rows.order[n]
            if self._is_idle(rows.keys[row], rows.at_ms[row]):
                self._aside.add(row)
            else:
                self._take_signal(rows.keys[row], rows.offsets[row], rows.at_ms[row])

    def _take_aside(self, rows: Any, until_ms: int) -> None:
        """Take in the signals set aside, up to this time."""
        while self._aside_taken < self._aside.count:
            row = self._aside.at(self._aside_taken)
            if rows.at_ms[row] > until_ms:
                break
            self._aside_taken += 1
            self._take_signal(rows.keys[row], rows.offsets[row], rows.at_ms[row])

    def _take_signal(self, key: int, offset: int, at_ms: int) -> None:
        """Take a signal in."""
        self._note_busy(key, at_ms)
        bounded = self._has_reached[key] != 0
        bound = self._reached[key]
        is_news = not bounded or bound < offset
        if is_news:
            # The last signal ahead at or before this one may bring as much already.
            earlier = self._ahead.latest_until(key, at_ms)
            if earlier:
                bounded = True
                bound = self._ahead.offset(earlier)
                is_news = bound < offset
        if is_news:
            # Those at or after it that bring no more are no news any longer.
            while True:
                later = self._ahead.earliest_from(key, at_ms)
                if later == 0 or self._ahead.offset(later) > offset:
                    break
                self._ahead.remove(later)
            self._ahead.put(key, offset, at_ms)
            if self._needs.has(key):
                self._needs.improve(key, bounded, bound, offset, at_ms)

    def _take_requirements(
        self, rows: RequirementRows, signals: Any, has_now: bool, now_ms: int
    ) -> None:
        """Take requirements in, in the order of their time.

        Signals set aside come when it is their time. The letters are those at the head of the file.
        """
        for n in range(len(rows.order)):
            row = rows.order[n]
            key = rows.keys[row]
            offset = rows.offsets[row]
            start_ms = rows.submitted_ms[row]
            deadline_ms = rows.deadlines_ms[row]
            self._take_aside(signals, start_ms)
            self._note_busy(key, start_ms)
            if self._has_reached[key] and self._reached[key] >= offset:  # A
                self._note_moment(row, start_ms)
                continue
            covering = self._ahead.covering(key, offset)
            if covering:  # B
                at_ms = self._ahead.at_ms(covering)
                moment_ms = at_ms if at_ms > start_ms else start_ms
                if moment_ms <= deadline_ms:
                    self._note_moment(row, moment_ms)
                if at_ms <= start_ms or (has_now and at_ms <= now_ms):
                    continue  # final
            if has_now and deadline_ms <= now_ms and self._aside_taken == self._aside.count:
                self._note_wait(key, deadline_ms)
                continue  # no signal of this batch is left for it
            self._needs.put(rows, row)

    def _note_moment(self, row: int, moment_ms: int) -> None:
        self._row_numbers[self._row_count] = row
        self._row_moments[self._row_count] = moment_ms
        self._row_count += 1

    def _pass_by(self, nodes: Any) -> None:
        """These signals are ahead no longer: their keys have reached what they bring."""
        for n in range(len(nodes)):
            offset = self._ahead.offset(nodes[n])
            key = self._ahead.pass_by(nodes[n])
            if not self._has_reached[key] or self._reached[key] < offset:
                self._has_reached[key] = 1
                self._reached[key] = offset
            if self._needs.has(key):
                self._needs.remove_until(key, self._reached[key])

    def _expire(self, nodes: Any) -> None:
        """The deadlines of these requirements are past."""
        for n in range(len(nodes)):
            key = self._needs.expire(nodes[n])
            self._note_wait(key, self._needs.at_ms(nodes[n]))
            self._release_key(key)

    def _note_busy(self, key: int, at_ms: int) -> None:
        """The key has news, or somebody who waits; what it reached too long before is forgotten."""
        if self._is_idle(key, at_ms):
            self._has_reached[key] = 0
            self._ahead.remove_all(key)
        if at_ms > self._busy_ms[key] or not self._is_known(key):
            self._busy_ms[key] = at_ms

    def _note_wait(self, key: int, deadline_ms: int) -> None:
        """Somebody waited for the key until this time."""
        if deadline_ms > self._busy_ms[key]:
            self._busy_ms[key] = deadline_ms

    def _is_idle(self, key: int, at_ms: int) -> bool:
        """Say whether all that is known of the key is to be forgotten by this time."""
        return bool(
            at_ms > self._floor_ms
            and self._busy_ms[key] < at_ms - self._keep_ms
            and self._is_known(key)
            and not self._needs.has(key)
        )

    def _is_known(self, key: int) -> bool:
        """Say whether the key has reached something, or is about to, or somebody waits for it."""
        return bool(self._has_reached[key] or self._needs.has(key) or self._ahead.has(key))

    def _forget(self, before_ms: int) -> None:
        """Forget keys without waiters or news since then."""
        for key in range(self._names.texts.places):
            if (
                self._names.texts.holds(key)
                and not self._needs.has(key)
                and self._busy_ms[key] <= before_ms
            ):
                self._has_reached[key] = 0
                self._release_key(key)

    def _release_keys(self, keys: Any) -> None:
        for n in range(len(keys)):
            if self._names.texts.holds(keys[n]):
                self._release_key(keys[n])

    def _release_key(self, key: int) -> None:
        """Remove the key if there is nothing to know of it."""
        if not self._is_known(key):
            self._names.remove(key)
