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

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.history.findings import Difference, Findings, Kind, Step
from sojourn.history.folder import Folder
from sojourn.history.in_process import compare_in_process
from sojourn.history.stretch import Stretch
from sojourn.history.tables import SCHEMAS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        findings.add_one(Difference(Kind.FILE, fault, None, None))
    if spark is None:
        compare_in_process(stretch, findings, step)
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
