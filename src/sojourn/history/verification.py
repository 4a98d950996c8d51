"""Verification: replay a history, and compare with what was told.

    history: operations, signals, cancels  --replay-->  how each must have ended
    history: outcomes                                   how each was told to have ended    same?
    DATA:    outcomes, as far as retention keeps them   the same, by number                same?

What a history that is cut cannot prove is counted as not proven, by reason:

    A. the operation was submitted before the stretch begins
    B. how it ended depends on how far a key had come before that. Such a key's progress was lower
       than the first signal that moved it since; so all is replayed twice, once with no progress
       from before and once with the most that there can have been. Where both say the same, that
       is proven: an end moves one way only when progress grows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sojourn import replay
from sojourn.history.folder import Folder
from sojourn.history.names import Names
from sojourn.history.stretch import Stretch
from sojourn.history.tables import (
    CANCELS,
    FORGOTTEN,
    OPERATIONS,
    OUTCOMES,
    SCHEMAS,
    SIGNALS,
)
from sojourn.replay import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHANGED = "told otherwise"
NEVER_SUBMITTED = "told, and never submitted"
STILL_WAITING = "told, and still waiting"
NOT_TOLD = "ended, and not told"
TOLD_TWICE = "told twice"
REJECTED = "a row that means nothing"
FILE = "a file that is not as recorded"
DATA = "not as in the data file"

BEFORE = "submitted before the history begins"
DEPENDS = "depends on progress made before the history begins"
NOT_RECORDED = "told after the end of the history"
TOLD_BEFORE = "told before the history begins"

WAITING = "waiting"
OUTCOME = ("status", "at_ms", "by_key", "waited_ms")
TOLD_COLUMNS = ["id", *OUTCOME, "number", "submitted_ms"]

Step = Callable[[str], None]


class Difference(NamedTuple):
    """One thing that is not as it should be, from both sides."""

    kind: str
    name: str  # an id, a file, a row
    told: dict[str, Any] | str | None
    replayed: dict[str, Any] | str | None


@dataclass
class Findings:
    """What was compared, and what differs: the first few, and how many of each kind."""

    show: int
    proven: int = 0
    waiting: int = 0
    unproven: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    differences: list[Difference] = field(default_factory=list)

    def add(self, count: int, differences: Iterator[Difference], kind: str) -> None:
        """So many of a kind; of the iterator only as many are taken as are shown."""
        if count:
            self.counts[kind] += count
            while len(self.differences) < self.show:
                difference = next(differences, None)
                if difference is None:
                    break
                self.differences.append(difference)

    def add_one(self, difference: Difference) -> None:
        self.add(1, iter((difference,)), difference.kind)


@dataclass
class Verification:
    """What `verify` has found."""

    engine: str  #: "local" or "spark"
    hours: int  #: that were replayed
    removed_hours: int  #: that are not in the folder any more
    is_complete: bool  #: whether the history begins with the first batch
    first_ms: int
    last_ms: int
    rows: dict[str, int]  #: by table
    findings: Findings
    in_data: int  #: outcomes compared with those in the data file

    @property
    def is_proven(self) -> bool:
        """Whether nothing differs. What could not be proven is in `unproven`."""
        return not self.findings.counts

    @property
    def proven(self) -> int:
        """Outcomes that the replay gives exactly as they were told."""
        return self.findings.proven

    @property
    def waiting(self) -> int:
        """Operations that had not ended at the end of the history, by both accounts."""
        return self.findings.waiting

    @property
    def unproven(self) -> dict[str, int]:
        """Outcomes that the history cannot prove, by reason."""
        return dict(self.findings.unproven)

    @property
    def counts(self) -> dict[str, int]:
        """How many differences of each kind."""
        return dict(self.findings.counts)

    @property
    def differences(self) -> list[Difference]:
        """The first of them."""
        return self.findings.differences


def verify(
    data: Any,
    folder: Any,
    *,
    spark: SparkSession | None = None,
    show: int = 20,
    step: Step = lambda what: None,
) -> Verification:
    """Prove that replaying the history in `folder` gives every outcome that was told.

    `data` is the durable purgatory's file, in use or not; None compares with the history's own
    outcomes alone. With a Spark session the replay is done there. `step` is told what is done.
    """
    step("looking at the history's files")
    stretch = Stretch.of(Folder(folder))
    findings = Findings(show)
    for fault in stretch.faults:
        findings.add_one(Difference(FILE, fault, None, None))
    if spark is None:
        compare_here(stretch, findings, step)
    else:
        from sojourn.history.on_spark import compare_on_spark

        compare_on_spark(spark, stretch, findings, step)
    in_data = 0
    if data is not None:
        from sojourn.history.data import compare_with_data

        in_data = compare_with_data(data, stretch, findings, step)
    return Verification(
        "local" if spark is None else "spark",
        len(stretch.hours),
        stretch.removed,
        not stretch.is_cut,
        stretch.first_ms,
        stretch.last_ms,
        {table: stretch.rows(table) for table in SCHEMAS},
        findings,
        in_data,
    )


# In this process.


def compare_here(stretch: Stretch, findings: Findings, step: Step) -> None:
    """Replay the stretch, and compare with its outcomes."""
    step("reading the history")
    operations = stretch.read(OPERATIONS, list(rows.OPERATION_COLUMNS))
    signals = stretch.read(SIGNALS, list(rows.SIGNAL_COLUMNS))
    cancels = stretch.read(CANCELS, list(rows.CANCEL_COLUMNS))
    told = stretch.read(OUTCOMES, TOLD_COLUMNS)
    names = Names(stretch.read(FORGOTTEN, ["key", "at_ms"]), repeated_ids(operations))
    operations, signals = names.operations(operations), names.signals(signals)
    cancels, told = names.cancels(cancels), names.outcomes(told)
    step(f"replaying {len(operations):,} operations and {len(signals):,} signals")
    until_ms = stretch.last_ms
    resolution = replay.resolve(operations, signals, cancels, until_ms)
    add_rejected(findings, len(resolution.rejected), resolution.rejected)
    replayed = _as_one(resolution, names)
    is_sure = np.ones(len(replayed), dtype=np.bool_)
    if stretch.is_cut:
        step("replaying with the most progress that there can have been before")
        before = most_progress(operations, signals, names, stretch.first_ms)
        most = pa.concat_tables([signals, before.cast(signals.schema)])
        other = _as_one(replay.resolve(operations, most, cancels, until_ms), names)
        order = pc.index_in(_one(replayed["id"]), value_set=_one(other["id"]))
        is_sure = _is_same(replayed, other.take(order))
    step(f"comparing {len(told):,} outcomes")
    _compare(stretch, findings, names, told, replayed, is_sure)


def repeated_ids(operations: pa.Table) -> pa.Table:
    """Id and submission of the operations whose id came several times."""
    ids = operations.select(["id", "submitted_ms"])
    counts = ids.group_by("id").aggregate([("submitted_ms", "count")])
    several = counts.filter(pc.greater(counts["submitted_ms_count"], 1))
    if not len(several):
        return ids.slice(0, 0)
    return ids.filter(pc.is_in(ids["id"], value_set=_one(several["id"])))


def most_progress(operations: pa.Table, signals: pa.Table, names: Names, first_ms: int) -> pa.Table:
    """As signals: the most progress that keys can have had before the stretch.

    One less than the first signal that moved a key since, without limit if none did. A key that
    was forgotten since begins anew, and is known from there.
    """
    wanted = pc.unique(_one(operations["requires"]).flatten().field("key"))
    lowest = signals.group_by("key").aggregate([("offset", "min")])
    moved = _one(lowest["key"])
    below = pc.subtract(pc.max_element_wise(_one(lowest["offset_min"]), rows.LEAST + 1), 1)
    unmoved = wanted.filter(pc.invert(pc.is_in(wanted, value_set=moved)))
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
    still = pa.table([_one(pending["id"]), *waiting, nothing], names=columns)
    ended = resolution.outcomes.select(columns)
    ended = ended.set_column(3, "by_key", names.plain_keys(ended["by_key"]))
    return pa.concat_tables([ended, still.cast(ended.schema)]).combine_chunks()


def _compare(
    stretch: Stretch,
    findings: Findings,
    names: Names,
    told: pa.Table,
    replayed: pa.Table,
    is_sure: npt.NDArray[np.bool_],
) -> None:
    if stretch.is_cut:
        is_before = pc.less(told["submitted_ms"], stretch.first_ms)
        findings.unproven[BEFORE] += pc.sum(is_before, min_count=0).as_py() or 0
        told = told.filter(pc.invert(is_before))
    place = pc.index_in(_one(told["id"]), value_set=_one(replayed["id"]))
    is_known = ~np.asarray(pc.is_null(place))
    show = _Shower(findings, names, told, replayed)

    told_rows = np.flatnonzero(is_known)
    places = place.take(pa.array(told_rows)).to_numpy().astype(np.int64)
    _, first = np.unique(places, return_index=True)
    is_first = np.zeros(len(places), dtype=np.bool_)
    is_first[first] = True
    again, again_places = told_rows[~is_first], places[~is_first]
    told_rows, places = told_rows[is_first], places[is_first]

    same = _is_same(told.take(pa.array(told_rows)), replayed.take(pa.array(places)))
    sure = is_sure[places]
    waits = np.asarray(pc.equal(replayed["status"], WAITING))
    findings.proven += int((same & sure).sum())
    findings.unproven[DEPENDS] += int((~sure).sum())
    changed = ~same & sure & ~waits[places]
    show.add(CHANGED, told_rows[changed], places[changed])
    still = ~same & sure & waits[places]
    show.add(STILL_WAITING, told_rows[still], places[still])

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
    findings.unproven[DEPENDS] += int((untold & open_ & ~is_sure).sum())
    # More progress would only have ended it earlier.
    show.add(NOT_TOLD, None, np.flatnonzero(untold & ~open_))
    show.add(NEVER_SUBMITTED, np.flatnonzero(~is_known), None)
    show.add(TOLD_TWICE, again, again_places)


class _Shower:
    """Turns rows into differences, for as many as are shown."""

    def __init__(
        self, findings: Findings, names: Names, told: pa.Table, replayed: pa.Table
    ) -> None:
        self._findings = findings
        self._names = names
        self._told = told
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
        told = replayed = None
        if told_rows is not None:
            told = self._told.take(pa.array(told_rows[:show])).to_pylist()
        if places is not None:
            replayed = self._replayed.take(pa.array(places[:show])).to_pylist()
        for n in range(len(told or replayed or ())):
            both = told or replayed or []
            yield difference(
                kind,
                self._names.plain_ids(pa.array([both[n]["id"]]))[0].as_py(),
                told[n] if told else None,
                replayed[n] if replayed else None,
            )


def difference(
    kind: str, name: str, told: dict[str, Any] | None, replayed: dict[str, Any] | None
) -> Difference:
    """An operation that differs, with what is known of its end from both sides."""

    def end(row: dict[str, Any] | None) -> dict[str, Any] | None:
        return None if row is None else {column: row[column] for column in OUTCOME}

    return Difference(kind, name, end(told), end(replayed))


def add_rejected(findings: Findings, count: int, rejected: pa.Table) -> None:
    """Rows that the replay would not take: a recorder writes none of these."""
    rejected = rejected.slice(0, findings.show)
    each = zip(rejected["row"].to_pylist(), rejected["reason"].to_pylist(), strict=True)
    differences = (Difference(REJECTED, text, None, reason) for text, reason in each)
    findings.add(count, differences, REJECTED)


def _is_same(one: pa.Table, other: pa.Table) -> npt.NDArray[np.bool_]:
    """Where two tables say the same of how an operation ended."""
    same = np.ones(len(one), dtype=np.bool_)
    for column in OUTCOME:
        left, right = _one(one[column]), _one(other[column])
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        same &= np.asarray(pc.or_(both_null, pc.fill_null(pc.equal(left, right), False)))
    return same


def _one(column: Any) -> Any:
    """A column in one piece."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column
