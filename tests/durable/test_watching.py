"""Those who watch: listeners, questions to the machine, and readers of the journal."""

from __future__ import annotations

import random
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import DeadlineWheel, ManualClock
from sojourn.durable import JournalBatch, Machine, News, Purgatory, snapshots, store
from sojourn.durable.plan import Batch
from sojourn.durable.submissions import checked_submission
from sojourn.errors import BadFile, Closed, Missed, OutOfRange, WrongType
from tests.durable.world import as_row, by_id
from tests.rows import oracle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAIT_S = 30.0
WEEK_MS = 7 * 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000)


# Listeners.


def test_a_listener_hears_of_every_batch_before_it_is_answered(path: Path) -> None:
    heard: list[tuple[News, str]] = []
    with Purgatory(path) as waits:
        remove = waits.listen(lambda news: heard.append((news, threading.current_thread().name)))
        answer = waits.submit("a", [("k", 1)], 60_000)
        assert len(heard) == 1
        assert heard[0][1] == "waits.db-writer"
        waits.submit_many([("a", [("k", 1)], 60_000), ("a", [("k", 2)], 60_000)])
        waits.signal_many([("k", 1), ("k", 0), ("m", 1)])
        remove()
        remove()
        waits.signal("m", 2)
    news = [news for news, _ in heard]
    assert [(n.commands, n.submissions, n.signals, len(n.outcomes)) for n in news] == [
        (1, 1, 0, 0),
        (2, 0, 0, 0),
        (3, 0, 2, 1),
    ]
    assert news[0].time_ms == answer.at_ms
    assert news[2].outcomes[0].id == "a"
    assert all(n.commit_ms > 0 for n in (news[0], news[2]))


def test_a_listener_hears_of_expiries_and_not_of_nothing(
    waits: Purgatory, clock: ManualClock
) -> None:
    heard: list[News] = []
    waits.submit("a", [("k", 1)], 10)
    waits.listen(heard.append)
    waits.subscription("mail").commit(0)
    clock.advance(100)
    assert [(n.commands, [o.id for o in n.outcomes]) for n in heard] == [(0, ["a"])]


def test_a_listener_that_fails_is_logged_and_stops_nothing(
    waits: Purgatory, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[News] = []

    def broken(news: News) -> None:
        raise ZeroDivisionError

    waits.listen(broken)
    waits.listen(heard.append)
    assert waits.signal("k", 1).verdict == "accepted"
    assert len(heard) == 1
    assert "a listener failed" in caplog.text


# Questions to the machine.


def test_the_machine_is_asked_between_batches_by_the_thread_that_writes(path: Path) -> None:
    with Purgatory(path) as waits:
        waits.submit("a", [("k", 1)], 60_000)
        names = waits.inspect(lambda machine: threading.current_thread().name)
        assert names.result(WAIT_S) == "waits.db-writer"
        assert waits.inspect(len).result(WAIT_S) == 1
        with pytest.raises(ZeroDivisionError):
            waits.inspect(lambda machine: 1 // 0).result(WAIT_S)
        assert waits.signal("k", 1).verdict == "accepted"
    with pytest.raises(Closed):
        waits.inspect(len)


def test_a_question_that_nobody_answers_any_more_is_refused(waits: Purgatory) -> None:
    from concurrent.futures import Future

    from sojourn.durable.requests import Question

    future: Future[int] = Future()
    waits._shell.enqueue_question(Question(len, future))
    waits.close()
    assert isinstance(future.exception(0), Closed)


def test_the_oldest_waits_come_first(waits: Purgatory, clock: ManualClock) -> None:
    for n in range(5):
        waits.submit(f"{n}", [("k", n + 1)], 10_000 - n)
        clock.advance(5)
    waits.signal("k", 1)
    oldest = waits.inspect(lambda machine: machine.oldest(3)).result(0)
    assert [operation.id for operation in oldest] == ["1", "2", "3"]


def test_who_waits_on_a_key_is_told_by_offset_and_submission(waits: Purgatory) -> None:
    waits.submit_many(
        [
            ("late", [("k", 9)], 10_000),
            ("first", [("k", 5), ("m", 1)], 10_000),
            ("twice", [("k", 7), ("k", 8)], 10_000),
            ("second", [("k", 5)], 10_000),
            ("holds", [("k", 2), ("m", 1)], 10_000),
            ("elsewhere", [("m", 1)], 10_000),
        ]
    )
    waits.signal("k", 3)

    def on(key: str, limit: int = 100) -> list[str]:
        waiters = waits.inspect(lambda machine: machine.waiting_on(key, limit)).result(0)
        return [operation.id for operation in waiters]

    assert on("k") == ["first", "second", "twice", "late"]
    assert on("k", 2) == ["first", "second"]
    assert on("nobody's") == []
    assert waits.inspect(lambda machine: machine.waiting_count("k")).result(0) == 5
    assert waits.inspect(lambda machine: machine.waiting_count("nobody's")).result(0) == 0


def test_the_busiest_keys_are_counted_exactly(waits: Purgatory, clock: ManualClock) -> None:
    rng = random.Random(1)
    rows = []
    for n in range(2_000):
        keys = rng.sample([f"k{int(rng.expovariate(0.2))}" for _ in range(8)], 2)
        rows.append((f"{n}", [(key, rng.randrange(1, 9)) for key in keys], 60_000, 2))
    waits.submit_many(rows)
    progress = {f"k{n}": rng.randrange(6) for n in range(0, 30, 3)}
    waits.signal_many(progress.items())
    waits.cancel_many([f"{n}" for n in range(0, 2_000, 7)])
    counts: dict[str, int] = {}
    for row in rows:
        operation = waits.get(row[0])
        assert operation is not None
        if operation.status == "waiting":
            for key, offset in operation.requires:
                if progress.get(key, -1) < offset:
                    counts[key] = counts.get(key, 0) + 1
    wanted = sorted(counts.items(), key=lambda row: (row[1], row[0]), reverse=True)
    busiest = waits.inspect(lambda machine: machine.busiest_keys(10)).result(0)
    assert busiest == wanted[:10]
    assert waits.inspect(lambda machine: machine.busiest_keys(10_000)).result(0) == wanted


def test_with_very_many_keys_the_busiest_are_found_by_looking_at_some() -> None:
    machine = Machine()
    count = 30_000
    rows = []
    for n in range(count):
        shared = "hot" if n % 50 == 0 else ("warm" if n % 75 == 1 else f"cold-{n}")
        rows.append(checked_submission(f"{n}", [(f"own-{n}", 1), (shared, 1)], 60_000))
    machine.apply(machine.plan(1, Batch(submissions=rows), {}))
    hot, warm = count // 50, len([n for n in range(count) if n % 50 and n % 75 == 1])
    for _ in range(5):
        assert machine.busiest_keys(2) == [("hot", hot), ("warm", warm)]
    assert Machine().busiest_keys(5) == []


def test_the_wheel_is_shown_by_level_and_bucket(waits: Purgatory, clock: ManualClock) -> None:
    waits.submit_many([("a", [("k", 1)], 3), ("b", [("k", 1)], 3), ("c", [("k", 1)], 237)])
    levels = waits.inspect(lambda machine: machine.wheel()).result(0)
    assert [tick_ms for tick_ms, _ in levels][:2] == [1, 20]
    assert all(len(counts) == 20 for _, counts in levels)
    assert sum(sum(counts) for _, counts in levels) == 3
    waits.cancel("c")
    clock.advance(1_000)
    levels = waits.inspect(lambda machine: machine.wheel()).result(0)
    assert sum(sum(counts) for _, counts in levels) == 0


def test_the_levels_of_a_wheel_count_what_is_in_the_buckets() -> None:
    wheel = DeadlineWheel(tick_ms=1, wheel_size=20, start_ms=0)
    wheel.add_many([18, 123, 237, 239, 450])

    def shown() -> list[tuple[int, dict[int, int]]]:
        """Only buckets that are in use."""
        return [
            (tick_ms, {n: count for n, count in enumerate(counts) if count})
            for tick_ms, counts in wheel.levels()
        ]

    assert shown() == [(1, {18: 1}), (20, {6: 1, 11: 2}), (400, {1: 1})]
    wheel.advance(225)  # the wheel's own time is 220 then
    assert shown() == [(1, {17: 1, 19: 1}), (20, {}), (400, {1: 1})]


def test_the_levels_of_a_wheel_count_all_that_waits() -> None:
    rng = random.Random(2)
    wheel = DeadlineWheel(tick_ms=1, wheel_size=4, start_ms=0)
    waiting: dict[int, int] = {}
    now_ms = 0
    for _ in range(400):
        deadlines = [now_ms + rng.choice([1, 3, 10, 50, 300]) for _ in range(rng.randrange(5))]
        waiting.update(zip(wheel.add_many(deadlines), deadlines, strict=True))
        some = rng.sample(list(waiting), min(len(waiting), rng.randrange(3)))
        assert wheel.cancel_many(some) == len(some)
        for handle in some:
            del waiting[handle]
        if some and rng.random() < 0.2:  # which puts back what it took out
            with pytest.raises(OutOfRange):
                wheel.cancel_many([*list(waiting)[:2], 2**40])
        now_ms += rng.choice([0, 0, 1, 2, 40])
        for handle in wheel.advance(now_ms):
            del waiting[handle]
        assert sum(sum(counts) for _, counts in wheel.levels()) == len(waiting)


# The file.


def test_the_size_of_the_file_and_the_oldest_outcome_are_told(
    open_waits: Callable[..., Purgatory], clock: ManualClock, path: Path
) -> None:
    waits = open_waits(retention_ms=1_000)
    assert (waits.first_outcome, waits.last_outcome) == (0, 0)
    for n in range(10):
        waits.submit(f"{n}", [("k", 1)], 0)
        clock.advance(500)
    assert waits.last_outcome == 10
    assert waits.first_outcome == waits.outcomes()[0].number
    assert waits.first_outcome > 1
    log = path.with_name("waits.db-wal")
    assert waits.file_bytes == path.stat().st_size + log.stat().st_size
    waits.close()
    with pytest.raises(Closed):
        _ = waits.file_bytes


# The journal.


def rows_of(batches: list[JournalBatch]) -> tuple[list[Any], list[Any], list[Any]]:
    """The operations, signals and cancels, as rows."""
    operations = [
        {
            "id": operation.id,
            "submitted_ms": operation.submitted_ms,
            "timeout_ms": operation.timeout_ms,
            "requires": [{"key": key, "offset": offset} for key, offset in operation.requires],
            "needed": operation.needed,
        }
        for batch in batches
        for operation in batch.operations
    ]
    signals = [
        {"key": key, "offset": offset, "at_ms": batch.time_ms}
        for batch in batches
        for key, offset in batch.signals
    ]
    cancels = [
        {"id": outcome.id, "at_ms": outcome.at_ms}
        for batch in batches
        for outcome in batch.outcomes
        if outcome.status == "cancelled"
    ]
    return operations, signals, cancels


def live(waits: Purgatory, clock: ManualClock, rng: random.Random, name: str) -> None:
    """Some of everything."""
    waits.submit_many(
        [
            (f"{name}-{m}", [(f"k{rng.randrange(9)}", rng.randrange(9))], rng.choice([5, 50, 500]))
            for m in range(10)
        ]
    )
    waits.signal_many([(f"k{rng.randrange(9)}", rng.randrange(9)) for _ in range(3)])
    waits.cancel(f"{name}-{rng.randrange(10)}")
    clock.advance(rng.randrange(20))


def test_the_journal_tells_batch_by_batch_what_was_taken_and_what_ended(
    open_waits: Callable[..., Purgatory],
    clock: ManualClock,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over snapshots, retention and restarts, for a reader that comes now and then."""
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", 2_000)
    monkeypatch.setattr(snapshots, "_PIECE_OPERATIONS", 50)
    rng = random.Random(3)
    options: dict[str, Any] = {"retention_ms": 100, "forget_keys_after_ms": None}
    waits = open_waits(**options)
    waits.keep_journal("history", 0)
    assert waits.journal_readers() == {"history": 0}
    read: list[JournalBatch] = []
    for n in range(60):
        live(waits, clock, rng, str(n))
        if n % 20 == 10:
            waits = open_waits(**options)
            assert waits.journal_readers() == {"history": read[-1].batch if read else 0}
        if n % 15 == 14:
            while some := waits.batches(read[-1].batch if read else 0, limit=7):
                read += some
            waits.keep_journal("history", read[-1].batch)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM snapshots").fetchone() == (1,)
    clock.advance(1_000)
    read += waits.batches(read[-1].batch, limit=1_000)
    assert [batch.batch for batch in read] == list(range(1, waits.last_batch + 1))
    read_outcomes = [outcome for batch in read for outcome in batch.outcomes]
    assert [outcome.number for outcome in read_outcomes] == list(range(1, waits.last_outcome + 1))
    wanted = oracle.resolve(*rows_of(read))
    assert by_id(map(as_row, read_outcomes)) == by_id(wanted.outcomes)
    # When nobody keeps it any more it goes, and so do the outcomes.
    assert waits.first_outcome < waits.last_outcome
    waits.keep_journal("history", None)
    for n in range(60, 90):
        live(waits, clock, rng, str(n))
    assert waits.journal_readers() == {}
    assert waits.batches(limit=1)[0].batch > read[-1].batch - 200
    with pytest.raises(Missed, match="batches 2 to"):
        waits.batches(after=1)


def test_what_a_reader_has_not_read_is_kept_and_what_all_have_read_is_removed(
    open_waits: Callable[..., Purgatory],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", 1_000)
    monkeypatch.setattr(store, "_BATCHES_REMOVED_AT_ONCE", 5)
    waits = open_waits()
    waits.signal_many([("a", 1), ("b", 1)])
    waits.signal("a", 2)
    waits.signal("a", 3)
    waits.keep_journal("slow", 3)
    waits.keep_journal("fast", 3)
    for n in range(100):
        waits.signal_many([(f"key-{m}", n) for m in range(10)])
        clock.advance(1)
    assert waits.batches(limit=1)[0].batch <= 4
    waits.keep_journal("fast", 90)
    clock.advance(100)
    assert waits.batches(limit=1)[0].batch <= 4
    waits = open_waits()
    waits.keep_journal("slow", 60)
    clock.advance(100)
    assert waits.batches(limit=1)[0].batch == 61
    with pytest.raises(Missed, match=r"batches 6 to 60 .* were removed"):
        waits.batches(after=5)
    assert waits.batches(after=60, limit=1)[0].batch == 61


def test_the_journal_tells_which_keys_were_forgotten(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits(forget_keys_after_ms=100)
    waits.signal("idle", 1)
    clock.advance(1_000)
    waits.signal("other", 1)
    assert [batch.forgotten for batch in waits.batches()] == [[], ["idle"]]


def test_a_position_in_the_journal_is_a_batch_that_there_was(waits: Purgatory) -> None:
    waits.signal("k", 1)
    assert waits.last_batch == 1
    with pytest.raises(OutOfRange, match="batch must be"):
        waits.keep_journal("history", 2)
    with pytest.raises(OutOfRange, match="name must have"):
        waits.keep_journal("", 1)
    with pytest.raises(WrongType):
        waits.keep_journal(None, 1)  # type: ignore[arg-type]


def test_damage_to_a_position_in_the_journal_is_found(
    open_waits: Callable[..., Purgatory], path: Path
) -> None:
    waits = open_waits()
    waits.keep_journal("history", 0)
    waits.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE keepers SET batch = 9")
        connection.commit()
    with pytest.raises(BadFile, match="the checksum of keeper 'history' is wrong"):
        open_waits()
