"""The feed as recorded against the outcomes in the data file, number by number.

data file           [ 301 ............... 950 ]      retention removed 1 to 300
history    [ 120 ................ 940 ]              941 to 950 are not recorded yet
compared            [ 301 ....... 940 ]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from sojourn.durable.reader import OutcomesReader
from sojourn.errors import BadFile
from sojourn.history.findings import TOLD_COLUMNS, Findings, Kind, Reason, Step, difference
from sojourn.history.recorder import position_name
from sojourn.history.stretch import Stretch
from sojourn.history.tables import OUTCOMES

_ROWS_AT_ONCE = 50_000


def compare_with_data(
    path: str | os.PathLike[str], stretch: Stretch, findings: Findings, step: Step
) -> int:
    """Compare the recorded outcomes with those in the file; return how many are the same."""
    path = os.fspath(path)
    step(f"comparing with the outcomes in {path}")
    same = 0
    last_number = stretch.hours[-1].last_outcome
    first_number = last_number - stretch.rows(OUTCOMES) + 1
    with OutcomesReader(path) as reader:
        if position_name(stretch.folder.identity()) not in reader.journal_readers():
            raise BadFile(
                f"{stretch.folder.path} is not the history of {path}, or no longer; "
                "give the folder that its history is recorded to"
            )
        compared = first_number - 1
        for recorded in _recorded(stretch):
            until = max(compared, recorded[-1]["number"])
            same += _compare(reader, compared, until, recorded, findings)
            compared = until
            step(f"comparing with the outcomes in {path}: {same:,} are the same")
        same += _compare(reader, compared, last_number, [], findings)
        oldest, newest = reader.numbers()
    if stretch.is_cut and not last_number:  # it has no outcomes, so has no numbers
        first_number = newest + 1
        last_number = newest
    findings.unproven[Reason.TOLD_BEFORE] += max(0, min(first_number, newest + 1) - oldest)
    findings.unproven[Reason.NOT_RECORDED] += max(0, newest - max(last_number, oldest - 1))
    return same


def _compare(
    reader: OutcomesReader,
    after: int,
    until: int,
    recorded: list[dict[str, Any]],
    findings: Findings,
) -> int:
    """Compare the outcomes with these numbers; return how many are the same."""
    same = 0
    stored = {row["number"]: row for row in _stored(reader, after, until)}
    oldest, _ = reader.numbers()  # what retention has removed by now is not missing
    for row in recorded:
        other = stored.pop(row["number"], None)
        if row == other:
            same += 1
        elif other is not None or row["number"] >= oldest:
            findings.add_one(difference(Kind.DATA, row["id"], row, other))
    for other in stored.values():
        findings.add_one(difference(Kind.DATA, other["id"], None, other))
    return same


def _recorded(stretch: Stretch) -> Iterator[list[dict[str, Any]]]:
    for part in stretch.read_parts(OUTCOMES, TOLD_COLUMNS):
        for batch in part.to_batches(max_chunksize=_ROWS_AT_ONCE):
            if len(batch):
                yield batch.to_pylist()


def _stored(reader: OutcomesReader, after: int, until: int) -> Iterator[dict[str, Any]]:
    while outcomes := reader.outcomes(after, until, _ROWS_AT_ONCE):
        for outcome in outcomes:
            yield {column: getattr(outcome, column) for column in TOLD_COLUMNS}
        after = outcomes[-1].number or until
