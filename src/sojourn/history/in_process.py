"""The verification in this process: the whole stretch is replayed and compared as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn import replay
from sojourn.history.findings import (
    OUTCOME,
    TOLD_COLUMNS,
    WAITING,
    Difference,
    Findings,
    Kind,
    Reason,
    Step,
    add_rejected,
    difference,
)
from sojourn.history.names import Names
from sojourn.history.stretch import Stretch
from sojourn.history.tables import CANCELS, FORGOTTEN, OPERATIONS, OUTCOMES, SIGNALS
from sojourn.replay import rows
from sojourn.replay.arrays import one_piece


def compare_in_process(stretch: Stretch, findings: Findings, step: Step) -> None:
    """Replay the stretch, and compare with its outcomes."""
    step("reading the history")
    operations = stretch.read(OPERATIONS, list(rows.OPERATION_COLUMNS))
    signals = stretch.read(SIGNALS, list(rows.SIGNAL_COLUMNS))
    cancels = stretch.read(CANCELS, list(rows.CANCEL_COLUMNS))
    recorded = stretch.read(OUTCOMES, TOLD_COLUMNS)
    names = Names(stretch.read(FORGOTTEN, ["key", "at_ms"]), _repeated_ids(operations))
    operations, signals = names.operations(operations), names.signals(signals)
    cancels, recorded = names.cancels(cancels), names.outcomes(recorded)
    step(f"replaying {len(operations):,} operations and {len(signals):,} signals")
    until_ms = stretch.last_ms
    resolution = replay.resolve(operations, signals, cancels, until_ms)
    add_rejected(findings, len(resolution.rejected), resolution.rejected)
    replayed = _as_one(resolution, names)
    is_sure = np.ones(len(replayed), dtype=np.bool_)
    if stretch.is_cut:
        step("replaying with the most progress that there can have been before")
        before = _most_progress(operations, signals, names, stretch.first_ms)
        most = pa.concat_tables([signals, before.cast(signals.schema)])
        other = _as_one(replay.resolve(operations, most, cancels, until_ms), names)
        order = pc.index_in(one_piece(replayed["id"]), value_set=one_piece(other["id"]))
        is_sure = _is_same(replayed, other.take(order))
    step(f"comparing {len(recorded):,} outcomes")
    _compare(stretch, findings, names, recorded, replayed, is_sure)


def _repeated_ids(operations: pa.Table) -> pa.Table:
    """Id and submission of the operations whose id came several times."""
    ids = operations.select(["id", "submitted_ms"])
    counts = ids.group_by("id").aggregate([("submitted_ms", "count")])
    several = counts.filter(pc.greater(counts["submitted_ms_count"], 1))
    if not len(several):
        return ids.slice(0, 0)
    return ids.filter(pc.is_in(ids["id"], value_set=one_piece(several["id"])))


def _most_progress(
    operations: pa.Table, signals: pa.Table, names: Names, first_ms: int
) -> pa.Table:
    """As signals: the most progress that keys can have had before the stretch.

    One less than the first signal that moved a key since, without limit if none did. A key that
    was forgotten since begins anew, and is known from there.
    """
    required = pc.unique(one_piece(operations["requires"]).flatten().field("key"))
    lowest = signals.group_by("key").aggregate([("offset", "min")])
    moved = one_piece(lowest["key"])
    below = pc.subtract(pc.max_element_wise(one_piece(lowest["offset_min"]), rows.LEAST + 1), 1)
    unmoved = required.filter(pc.invert(pc.is_in(required, value_set=moved)))
    most = pa.table(
        {
            "key": pa.concat_arrays([moved, unmoved]),
            "offset": pa.concat_arrays([below, pa.array(np.full(len(unmoved), rows.MOST))]),
            "at_ms": pa.array(np.full(len(moved) + len(unmoved), first_ms - 1)),
        }
    )
    return most.filter(pc.invert(names.begins_anew(most["key"])))


def _as_one(resolution: replay.Resolution, names: Names) -> pa.Table:
    """Outcomes, and what is pending as waiting; keys as they were given."""
    pending = resolution.pending
    nothing = pa.nulls(len(pending), pa.int64())
    waiting = [pa.array([WAITING] * len(pending), pa.string()), nothing, pa.nulls(len(pending))]
    columns = ["id", *OUTCOME]
    still = pa.table([one_piece(pending["id"]), *waiting, nothing], names=columns)
    ended = resolution.outcomes.select(columns)
    ended = ended.set_column(3, "by_key", names.plain_keys(ended["by_key"]))
    return pa.concat_tables([ended, still.cast(ended.schema)]).combine_chunks()


def _compare(
    stretch: Stretch,
    findings: Findings,
    names: Names,
    recorded: pa.Table,
    replayed: pa.Table,
    is_sure: npt.NDArray[np.bool_],
) -> None:
    if stretch.is_cut:
        is_before = pc.less(recorded["submitted_ms"], stretch.first_ms)
        findings.unproven[Reason.BEFORE] += pc.sum(is_before, min_count=0).as_py() or 0
        recorded = recorded.filter(pc.invert(is_before))
    place = pc.index_in(one_piece(recorded["id"]), value_set=one_piece(replayed["id"]))
    is_known = ~np.asarray(pc.is_null(place))
    differences = _Differences(findings, names, recorded, replayed)

    told_rows = np.flatnonzero(is_known)
    places = place.take(pa.array(told_rows)).to_numpy().astype(np.int64)
    _, first = np.unique(places, return_index=True)
    is_first = np.zeros(len(places), dtype=np.bool_)
    is_first[first] = True
    again, again_places = told_rows[~is_first], places[~is_first]
    told_rows, places = told_rows[is_first], places[is_first]

    same = _is_same(recorded.take(pa.array(told_rows)), replayed.take(pa.array(places)))
    sure = is_sure[places]
    waits = np.asarray(pc.equal(replayed["status"], WAITING))
    findings.proven += int((same & sure).sum())
    findings.unproven[Reason.DEPENDS] += int((~sure).sum())
    changed = ~same & sure & ~waits[places]
    differences.add(Kind.CHANGED, told_rows[changed], places[changed])
    still = ~same & sure & waits[places]
    differences.add(Kind.STILL_WAITING, told_rows[still], places[still])

    untold = np.ones(len(replayed), dtype=np.bool_)
    untold[places] = False
    # At the deadline itself an operation is still open: it expires with a later batch.
    at_end = np.asarray(
        pc.and_(
            pc.equal(replayed["status"], "expired"),
            pc.equal(pc.fill_null(replayed["at_ms"], rows.LEAST), stretch.last_ms),
        )
    )
    open_ = waits | at_end
    findings.waiting += int((untold & open_ & is_sure).sum())
    findings.unproven[Reason.DEPENDS] += int((untold & open_ & ~is_sure).sum())
    # More progress would only have ended it earlier.
    differences.add(Kind.NOT_TOLD, None, np.flatnonzero(untold & ~open_))
    differences.add(Kind.NEVER_SUBMITTED, np.flatnonzero(~is_known), None)
    differences.add(Kind.TOLD_TWICE, again, again_places)


class _Differences:
    """Turns rows into differences, for as many as are shown."""

    def __init__(
        self, findings: Findings, names: Names, recorded: pa.Table, replayed: pa.Table
    ) -> None:
        self._findings = findings
        self._names = names
        self._recorded = recorded
        self._replayed = replayed

    def add(
        self,
        kind: str,
        told_rows: npt.NDArray[np.int64] | None,
        places: npt.NDArray[np.int64] | None,
    ) -> None:
        some = told_rows if told_rows is not None else places
        assert some is not None
        self._findings.add(len(some), self._rows(kind, told_rows, places), kind)

    def _rows(self, kind: str, told_rows: Any, places: Any) -> Iterator[Difference]:
        show = self._findings.show
        recorded = replayed = None
        if told_rows is not None:
            recorded = self._recorded.take(pa.array(told_rows[:show])).to_pylist()
        if places is not None:
            replayed = self._replayed.take(pa.array(places[:show])).to_pylist()
        for n in range(len(recorded or replayed or ())):
            both = recorded or replayed or []
            yield difference(
                kind,
                self._names.plain_ids(pa.array([both[n]["id"]]))[0].as_py(),
                recorded[n] if recorded else None,
                replayed[n] if replayed else None,
            )


def _is_same(one: pa.Table, other: pa.Table) -> npt.NDArray[np.bool_]:
    """Where two tables say the same of how an operation ended."""
    same = np.ones(len(one), dtype=np.bool_)
    for column in OUTCOME:
        left, right = one_piece(one[column]), one_piece(other[column])
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        same &= np.asarray(pc.or_(both_null, pc.fill_null(pc.equal(left, right), False)))
    return same
