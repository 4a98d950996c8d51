"""A batch of commands, and the plan that the machine makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sojourn.durable.answers import Answer, Operation
from sojourn.durable.records import BatchRecord
from sojourn.durable.submissions import Submission


@dataclass
class Batch:
    """Commands that get one time, and after planning their answers."""

    signals: list[tuple[str, int]] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    signal_answers: list[Answer] = field(default_factory=list)
    submission_answers: list[Answer] = field(default_factory=list)
    cancel_answers: list[Answer] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.signals) + len(self.submissions) + len(self.cancels)


@dataclass
class Plan:
    """What a batch will change, once it is written."""

    time_ms: int
    record: BatchRecord
    first_sequence: int  # of the first command in the record
    outcomes: list[Operation] = field(default_factory=list)
    # For `apply`:
    moved: dict[str, int] = field(default_factory=dict)
    arrivals: list[Submission] = field(default_factory=list)
    ended: list[Submission] = field(default_factory=list)
    overdue: int = 0  # how many of those that are overdue it ends

    def __len__(self) -> int:
        """How many commands and outcomes there are to write."""
        record = self.record
        return len(record.signals) + len(record.submissions) + len(self.outcomes)
