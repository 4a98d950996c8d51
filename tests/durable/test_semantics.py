"""Durable waits, sentence by sentence of the contract; on a hand-moved clock."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import ManualClock
from sojourn.durable import Purgatory
from sojourn.durable.records import read_batch
from sojourn.errors import (
    Full,
    IdTaken,
    Missed,
    OutOfRange,
    SojournError,
    WrongType,
)
from tests.durable.gate import WAIT_S, Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


# "Commands: submit, signal, cancel. The server gives each its time; commands get strictly ordered
# sequence numbers, and outcomes follow from commands and times by §6 alone."


def test_every_command_is_answered_with_its_time(waits: Purgatory, clock: ManualClock) -> None:
    submitted = waits.submit("order-7", [("paid", 1), ("packed", 1)], 1_000, class_="shop")
    assert submitted.verdict == "accepted"
    assert submitted.at_ms == START_MS
    assert submitted.operation is not None
    assert submitted.operation.submitted_ms == START_MS
    assert submitted.operation.deadline_ms == START_MS + 1_000
    assert submitted.operation.status == "waiting"
    clock.advance(10)
    assert waits.signal("paid", 1).at_ms == START_MS + 10
    clock.advance(10)
    cancelled = waits.cancel("order-7")
    assert (cancelled.verdict, cancelled.at_ms) == ("accepted", START_MS + 20)
    assert cancelled.operation is not None
    assert cancelled.operation.status == "cancelled"
    assert cancelled.operation.waited_ms == 20


def test_batches_have_times_and_sequence_numbers_in_strict_order(
    waits: Purgatory, path: Path
) -> None:
    for n in range(5):  # the clock stands still
        waits.submit_many([(f"{n}-{m}", [("k", 10)], 100) for m in range(3)])
        waits.signal_many([(f"s{n}", 1), (f"t{n}", 1)])
        waits.cancel(f"{n}-0")
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT time_ms, first_sequence, body FROM journal ORDER BY batch"
        ).fetchall()
    times = [row[0] for row in rows]
    assert times == list(range(START_MS, START_MS + len(times)))
    sequence = 1
    for _, first_sequence, body in rows:
        assert first_sequence == sequence
        record = read_batch(body)
        sequence += len(record.signals) + len(record.submissions) + len(record.cancelled)


def test_a_signal_that_comes_first_is_not_lost(waits: Purgatory) -> None:
    waits.signal("paid", 5)
    answer = waits.submit("order-7", [("paid", 5)], 1_000)
    assert answer.operation is not None
    assert answer.operation.status == "completed"
    assert answer.operation.at_ms == answer.at_ms
    assert answer.operation.by_key == "paid"


def test_a_lesser_signal_changes_nothing(waits: Purgatory) -> None:
    assert waits.signal("k", 5).verdict == "accepted"
    assert waits.signal("k", 5).verdict == "unchanged"
    assert waits.signal("k", 4).verdict == "unchanged"
    assert waits.progress("k") == 5
    assert waits.progress("nobody's") is None


def test_a_signal_at_the_deadline_completes(waits: Purgatory, clock: ManualClock) -> None:
    waits.submit("a", [("k", 1)], 50)
    clock.advance(50)
    waits.signal("k", 1)
    outcome = waits.get("a")
    assert outcome is not None
    assert (outcome.status, outcome.waited_ms) == ("completed", 50)


def test_it_expires_at_its_deadline_when_that_has_passed(
    waits: Purgatory, clock: ManualClock
) -> None:
    waits.submit("a", [("k", 1)], 50)
    clock.advance(50)
    assert waits.outcomes() == []
    clock.advance(1)
    (outcome,) = waits.outcomes()
    assert (outcome.status, outcome.at_ms, outcome.by_key) == ("expired", START_MS + 50, None)


def test_a_quorum_completes_by_the_smallest_key_of_its_last_moment(
    waits: Purgatory, clock: ManualClock
) -> None:
    waits.submit("a", [("x", 1), ("b", 1), ("c", 1)], 100, needed=2)
    waits.signal("x", 1)
    clock.advance(5)
    waits.signal_many([("c", 1), ("b", 1)])  # one batch, one moment
    outcome = waits.get("a")
    assert outcome is not None
    assert (outcome.status, outcome.by_key, outcome.at_ms) == ("completed", "b", START_MS + 5)


def test_a_cancel_in_the_batch_of_the_completion_loses(path: Path) -> None:
    gate = Gate()
    with Purgatory(path, connect=gate.connect) as waits:
        waits.submit("a", [("k", 1)], 60_000)
        gate.shut()
        holding = threading.Thread(target=waits.signal, args=("other", 1))
        holding.start()
        assert gate.reached.wait(WAIT_S)
        answers: dict[str, Any] = {}
        threads = [
            threading.Thread(target=lambda: answers.update(cancel=waits.cancel("a"))),
            threading.Thread(target=lambda: answers.update(signal=waits.signal("k", 1))),
        ]
        for thread in threads:
            thread.start()
        while len(waits._shell._queue) < 2:
            threads[0].join(0.001)
        gate.opened.set()
        for thread in [holding, *threads]:
            thread.join(WAIT_S)
        assert answers["cancel"].verdict == "ended"
        assert answers["cancel"].at_ms == answers["signal"].at_ms
        assert answers["cancel"].operation.status == "completed"


# "Acknowledged means on disk ... An outcome is told only after it is on disk. What was told never
# changes."


def test_nothing_is_answered_or_told_before_it_is_on_disk(path: Path) -> None:
    gate = Gate()
    with Purgatory(path, connect=gate.connect) as waits:
        waits.submit("a", [("k", 1)], 60_000)
        gate.shut()
        answers: list[Any] = []
        signalling = threading.Thread(target=lambda: answers.append(waits.signal("k", 1)))
        signalling.start()
        assert gate.reached.wait(WAIT_S)
        # The batch is about to be committed.
        assert answers == []
        assert waits.outcomes() == []
        operation = waits.get("a")
        assert operation is not None
        assert operation.status == "waiting"
        assert waits.progress("k") is None
        gate.opened.set()
        signalling.join(WAIT_S)
        assert [outcome.status for outcome in waits.outcomes()] == ["completed"]


def test_everybody_who_comes_during_a_commit_shares_the_next(path: Path) -> None:
    gate = Gate()
    with Purgatory(path, connect=gate.connect) as waits:
        gate.shut()
        before = gate.commits
        threads = [threading.Thread(target=waits.signal, args=("first", 1))]
        threads[0].start()
        assert gate.reached.wait(WAIT_S)
        for n in range(20):
            threads.append(
                threading.Thread(target=waits.submit, args=(f"op-{n}", [("k", 1)], 60_000))
            )
            threads[-1].start()
        while len(waits._shell._queue) < 20:
            threads[-1].join(0.001)
        gate.opened.set()
        for thread in threads:
            thread.join(WAIT_S)
        assert len(waits) == 20
        assert gate.commits == before + 2


def test_all_of_it_is_there_after_a_restart(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits()
    waits.submit("a", [("k", 3), ("m", 1)], 1_000, 1, "shop", b"\x00payload")
    waits.submit("b", [("k", 9)], 1_000, payload="text")
    waits.submit("c", [("x", 1)], 5)
    waits.signal("k", 4)
    clock.advance(10)
    before = waits.outcomes(), waits.get("b"), waits.get("a"), waits.progress("k")
    assert len(before[0]) == 2
    waits = open_waits()
    assert (waits.outcomes(), waits.get("b"), waits.get("a"), waits.progress("k")) == before
    waits.signal("k", 9)
    outcome = waits.get("b")
    assert outcome is not None
    assert (outcome.status, outcome.payload) == ("completed", "text")


# "Exactly once: submitting the same id with the same content again is not an error and changes
# nothing (the answer says so, with the operation's state); the same id with other content is
# refused. An id is remembered for a stated time after its end."


def test_the_same_submission_again_changes_nothing(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits()
    first = waits.submit("a", [("k", 1)], 100, payload="x")
    clock.advance(10)
    again = waits.submit("a", [("k", 1)], 100, payload="x")
    assert again.verdict == "duplicate"
    assert again.operation == first.operation
    waits.signal("k", 1)
    waits = open_waits()
    once_more = waits.submit("a", [("k", 1)], 100, payload="x")
    assert once_more.verdict == "duplicate"
    assert once_more.operation is not None
    assert once_more.operation.status == "completed"
    assert len(waits.outcomes()) == 1


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        ([("k", 2)], 100, None, "", None),
        ([("k", 1)], 101, None, "", None),
        ([("k", 1), ("k", 1)], 100, None, "", None),
        ([("k", 1)], 100, None, "c", None),
        ([("k", 1)], 100, None, "", b""),
    ],
)
def test_the_same_id_with_other_content_is_refused(
    waits: Purgatory, ended: bool, other: tuple[Any, ...]
) -> None:
    waits.submit("a", [("k", 1)], 100)
    if ended:
        waits.cancel("a")
    before = waits.get("a")
    with pytest.raises(IdTaken, match="'a' was submitted before"):
        waits.submit("a", *other)
    assert waits.get("a") == before


def test_two_of_one_batch_with_one_id_are_one(waits: Purgatory) -> None:
    row = ("a", [("k", 1)], 100)
    answers = waits.submit_many([row, row, ("a", [("k", 2)], 100)])
    assert [answer.verdict for answer in answers] == ["accepted", "duplicate", "refused"]
    assert len(waits) == 1


def test_an_id_is_remembered_for_the_stated_time_after_its_end(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits(retention_ms=1_000)
    waits.submit("a", [("k", 1)], 10)
    clock.advance(1_000)
    waits.signal("tick", 1)
    assert waits.submit("a", [("k", 1)], 10).verdict == "duplicate"
    clock.advance(20)
    waits.signal("tick", 2)  # whatever is written next removes it
    assert waits.get("a") is None
    assert waits.submit("a", [("k", 1)], 10).verdict == "accepted"


# "Time never goes back and never jumps: monotonic since start, anchored to the wall clock at start;
# after a restart it begins at the later of the wall clock and the last time on disk."


def test_time_is_the_wall_clock_at_the_start_and_monotonic_since(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    wall_ms = [5_000_000]
    waits = open_waits(wall_ms=lambda: wall_ms[0])
    assert waits.signal("k", 1).at_ms == 5_000_000
    wall_ms[0] = 1  # nobody looks at it any more
    clock.advance(7)
    assert waits.signal("k", 2).at_ms == 5_000_007


def test_a_clock_set_back_an_hour_does_not_move_time_back(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits()
    waits.submit("a", [("k", 1)], 100)
    clock.advance(40)
    waits.signal("x", 1)
    waits = open_waits(wall_ms=lambda: START_MS - 3_600_000)
    assert waits.signal("x", 2).at_ms == START_MS + 41
    clock.advance(62)
    assert [outcome.at_ms for outcome in waits.outcomes()] == [START_MS + 100]


def test_a_clock_set_ahead_a_year_expires_at_the_deadline(
    open_waits: Callable[..., Purgatory],
) -> None:
    waits = open_waits()
    waits.submit("a", [("k", 1)], 100)
    year_ms = 365 * DAY_MS
    waits = open_waits(wall_ms=lambda: START_MS + year_ms)
    (outcome,) = waits.outcomes()
    assert (outcome.status, outcome.at_ms) == ("expired", START_MS + 100)
    assert waits.signal("k", 1).at_ms == START_MS + year_ms + 1


def test_many_that_are_overdue_at_the_start_expire_each_at_its_deadline(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits()
    answers = waits.submit_many([(f"{n}", [("k", 1)], 100 + n % 1_000) for n in range(10_000)])
    waits.close()
    clock.advance(DAY_MS)
    waits = open_waits()
    outcomes = waits.outcomes(limit=20_000)
    assert len(outcomes) == 10_000
    assert [outcome.at_ms for outcome in outcomes] == sorted(
        answer.operation.deadline_ms for answer in answers if answer.operation is not None
    )


def test_on_the_system_clock_it_wakes_by_itself_at_the_deadline(path: Path) -> None:
    with Purgatory(path) as waits:
        answer = waits.submit("a", [("k", 1)], 30)
        (outcome,) = waits.outcomes(wait_ms=30_000)
        assert answer.operation is not None
        assert outcome.at_ms == answer.operation.deadline_ms
        assert waits.now_ms > answer.operation.deadline_ms  # never early


def test_with_nothing_due_nothing_happens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Purgatory(path) as waits:
        waits.submit("a", [("k", 1)], 3_600_000)
        steps: list[None] = []
        step = waits._shell.step

        def counted() -> Any:
            steps.append(None)
            return step()

        monkeypatch.setattr(waits._shell, "step", counted)
        assert waits.outcomes(wait_ms=200) == []
        assert len(steps) <= 1  # the writer may have been on its way to sleep
        monkeypatch.undo()


# "Outcomes form a numbered feed. A subscriber has a name and a durable position; it gets every
# outcome at least once, in order, and exactly once if it stores its position with its work. Ended
# operations stay readable until retention removes them."


def test_outcomes_are_numbered_by_time_and_then_by_submission(
    waits: Purgatory, clock: ManualClock
) -> None:
    waits.submit_many([("c", [("k", 1)], 20), ("b", [("k", 1)], 10), ("a", [("k", 1)], 20)])
    clock.advance(30)
    assert [(o.number, o.id) for o in waits.outcomes()] == [(1, "b"), (2, "c"), (3, "a")]
    assert [o.id for o in waits.outcomes(after=1)] == ["c", "a"]
    assert [o.id for o in waits.outcomes(after=1, limit=1)] == ["c"]
    assert waits.outcomes(after=3) == []


def test_a_subscriber_goes_on_where_it_committed(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits()
    waits.submit_many([(f"{n}", [("k", 1)], n) for n in range(6)])
    clock.advance(10)
    mail = waits.subscription("mail")
    assert [o.id for o in mail.read(limit=2)] == ["0", "1"]
    mail.commit()
    assert [o.id for o in mail.read(limit=2)] == ["2", "3"]  # and then it crashes
    waits = open_waits()
    mail = waits.subscription("mail")
    assert mail.position == 2
    assert mail.behind == 4
    assert [o.id for o in mail.read()] == ["2", "3", "4", "5"]
    mail.commit(5)
    assert waits.subscriptions() == {"mail": 5}
    assert [o.id for o in waits.subscription("mail").read()] == ["5"]
    assert [o.id for o in waits.subscription("other").read(limit=1)] == ["0"]


def test_a_position_is_one_of_an_outcome(waits: Purgatory) -> None:
    with pytest.raises(OutOfRange, match="number"):
        waits.subscription("mail").commit(1)


def test_a_subscriber_that_never_reads_holds_nothing_up_and_is_told_what_it_missed(
    open_waits: Callable[..., Purgatory], clock: ManualClock, path: Path
) -> None:
    waits = open_waits(retention_ms=1_000)
    waits.submit("first", [("k", 1)], 0)
    clock.advance(2)
    lazy = waits.subscription("lazy")
    lazy.read()
    lazy.commit()
    for n in range(50):
        waits.submit_many([(f"{n}-{m}", [("k", 1)], 0) for m in range(100)])
        clock.advance(100)
    with closing(sqlite3.connect(path)) as connection:
        (kept,) = connection.execute("SELECT count(*) FROM outcomes").fetchone()
    assert 900 <= kept <= 1_300
    waits.signal("tick", 1)
    with pytest.raises(Missed, match="outcomes 2 to") as missed:
        lazy.read()
    oldest = waits.outcomes(limit=1)[0].number
    assert missed.value.last + 1 == oldest
    lazy.commit(missed.value.last)
    assert lazy.read(limit=1)[0].number == oldest
    assert waits.subscription("new").read(limit=1)[0].number == oldest


def test_a_reader_waits_for_the_next_outcome(path: Path) -> None:
    with Purgatory(path) as waits:
        waits.submit("a", [("k", 1)], 60_000)
        read: list[Any] = []
        reader = threading.Thread(target=lambda: read.extend(waits.outcomes(wait_ms=30_000)))
        reader.start()
        while not waits._shell.followers._waiting:
            reader.join(0.001)
        waits.signal("k", 1)
        reader.join(WAIT_S)
        assert [o.id for o in read] == ["a"]


# "Overload and faults": see also test_durable_faults.py.


def test_above_max_waiting_submits_are_refused_and_signals_and_cancels_taken(
    open_waits: Callable[..., Purgatory],
) -> None:
    waits = open_waits(max_waiting=2)
    waits.signal("done", 1)
    waits.submit_many([("a", [("k", 1)], 100), ("b", [("k", 2)], 100)])
    with pytest.raises(Full, match="try later"):
        waits.submit("c", [("k", 3)], 100)
    assert waits.submit("a", [("k", 1)], 100).verdict == "duplicate"
    assert waits.signal("k", 1).verdict == "accepted"
    assert waits.submit("c", [("k", 3)], 100).verdict == "accepted"
    assert waits.cancel("c").verdict == "accepted"
    assert waits.submit("d", [("k", 3)], 100).verdict == "accepted"


def test_a_bad_row_of_a_batch_is_refused_by_itself(waits: Purgatory) -> None:
    rows: list[Any] = [
        ("a", [("k", 1)], 100),
        ("b", [], 100),
        ("c", [("k", 2**63)], 100),
        ("d", [("k", 1)], -1),
        ("e", [("k", 1)], 100, 2),
        ("f", [(None, 1)], 100),
        (None, [("k", 1)], 100),
        ("g", [("k", 1)], 100),
        "nonsense",
        {"id": "h", "requires": [("k", 1)], "timeout_ms": 5},
        {"id": "h", "nonsense": 1},
        ("\ud800", [("k", 1)], 100),
    ]
    answers = waits.submit_many(rows)
    verdicts = "accepted refused refused refused refused refused refused accepted refused"
    assert [a.verdict for a in answers] == [*verdicts.split(), "accepted", "refused", "refused"]
    assert all(isinstance(a.error, SojournError) for a in answers if a.verdict == "refused")
    assert len(waits) == 3
    signals: list[Any] = [("k", 1), ("k", "x"), (None, 1), ("k", 2), "x"]
    verdicts = "accepted refused refused accepted refused"
    assert [a.verdict for a in waits.signal_many(signals)] == verdicts.split()
    ids: list[Any] = ["a", None, "zz"]
    assert [a.verdict for a in waits.cancel_many(ids)] == ["ended", "refused", "unknown"]
    assert waits.submit_many([]) == []


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((7, [("k", 1)], 1), WrongType, "id must be a str"),
        (("", [("k", 1)], 1), OutOfRange, "id must have 1 to 1024 bytes"),
        (("x" * 1025, [("k", 1)], 1), OutOfRange, "id must have 1 to 1024 bytes"),
        (("a", "k", 1), WrongType, "requires must be a list"),
        (("a", [("k", 1)], 1.5), WrongType, "timeout_ms must be an integer"),
        (("a", [("k", 1)], 10**16), OutOfRange, "timeout_ms must be"),
        (("a", [("k", 1)], 1, 0), OutOfRange, "needed must be between 1"),
        (("a", [("k", 1)], 1, None, None), WrongType, "class_ must be a str"),
        (("a", [("k", 1)], 1, None, "", {1}), WrongType, "payload must be bytes, or JSON's"),
        (("a", [("k", 1)], 1, None, "", b"x" * (1 << 21)), OutOfRange, "payload must have at most"),
    ],
)
def test_what_is_wrong_with_a_submission_is_said(
    waits: Purgatory, arguments: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        waits.submit(*arguments)
    assert len(waits) == 0
