"""The live purgatory as an engine once more, with progress conditions in place of Python ones.

The stage is that of rows_live.py, and so is what happens in one millisecond and in which order.
Signals now complete what waits as they move their keys, and operations that arrive see what
came before them; to check the keys is only to note who has ended, and by which key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.rows import live as rows_live
from tests.rows.oracle import Answer, Row

if TYPE_CHECKING:
    from tests.rows.live import News
    from tests.rows.traces import Trace


class Stage(rows_live.Stage):
    """Leaves the waiting to the purgatory, and works out only by which key it ended."""

    def __init__(self, start_ms: int) -> None:
        super().__init__(start_ms)
        self.completed: list[Waiting] = []
        self.before: dict[str, int | None] = {}  # of keys with news: their progress until now

    def move_keys(self, news: News) -> None:
        self.before = {key: self.progress.get(key) for key, _ in news}
        super().move_keys(news)
        self.purgatory.signal_many(news)
        assert all(self.purgatory.progress(key) == self.progress[key] for key, _ in news)

    def submit(self, row: Row) -> None:
        operation = self.parked[row["id"]] = Waiting(row, self)
        requires = [(item["key"], item["offset"]) for item in row["requires"]]
        self.purgatory.try_complete_else_watch(operation, requires=requires, needed=row["needed"])

    def check_keys(self, news: News) -> None:
        for operation in self.completed:
            operation.by_key = self.by_key(operation.row)
            self.end(operation, "completed")
        self.completed.clear()

    def by_key(self, row: Row) -> str:
        """The smallest key among the requirements that have come to hold in this millisecond."""
        at_once = 2 * row["submitted_ms"] == self.clock.now_ms
        moved: list[str] = []
        for item in row["requires"]:
            key, offset = item["key"], item["offset"]
            held_before = key not in self.before or _reaches(self.before[key], offset)
            if _reaches(self.progress.get(key), offset) and (at_once or not held_before):
                moved.append(key)
        return min(moved)


class Waiting(rows_live.Parked):
    """An operation of the trace, waiting for progress."""

    stage: Stage

    def try_complete(self) -> bool:
        raise AssertionError("an operation that waits for progress is never tried")

    def on_complete(self) -> None:
        if self.is_expired:
            self.stage.end(self, "expired")
        else:
            self.stage.completed.append(self)


def _reaches(progress: int | None, offset: int) -> bool:
    return progress is not None and progress >= offset


def resolve(trace: Trace) -> Answer:
    return rows_live.resolve(trace, Stage)
