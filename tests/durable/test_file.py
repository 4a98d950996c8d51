"""The file of a durable purgatory: whose it is, what closing leaves in it, what it keeps."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import ManualClock
from sojourn.durable import Purgatory, snapshots
from sojourn.errors import Closed, Forked, InUse
from tests.durable.gate import WAIT_S, Gate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


# Whose it is, and closing.


def test_a_second_process_is_refused_with_the_pid_of_the_first(path: Path) -> None:
    with Purgatory(path), pytest.raises(InUse, match=f"open in process {os.getpid()}"):
        Purgatory(path)
    Purgatory(path).close()


def test_a_closed_purgatory_takes_nothing_and_forgets_nothing(
    open_waits: Callable[..., Purgatory],
) -> None:
    waits = open_waits()
    waits.submit("a", [("k", 1)], 100)
    waits.close()
    waits.close()
    for call in (lambda: waits.signal("k", 1), waits.outcomes, lambda: waits.get("a")):
        with pytest.raises(Closed):
            call()
    assert open_waits().get("a") is not None


def test_a_forked_process_is_told_so(waits: Purgatory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    with pytest.raises(Forked):
        waits.signal("k", 1)
    monkeypatch.undo()


def test_closing_answers_what_is_queued(path: Path) -> None:
    gate = Gate()
    waits = Purgatory(path, connect=gate.connect)
    gate.shut()
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(waits.signal("k", 1)))]
    threads[0].start()
    assert gate.reached.wait(WAIT_S)
    threads.append(threading.Thread(target=lambda: answers.append(waits.signal("m", 1))))
    threads[1].start()
    while not waits._shell._queue:
        threads[1].join(0.001)
    threads.append(threading.Thread(target=waits.close))
    threads[2].start()
    gate.opened.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert [answer.verdict for answer in answers] == ["accepted", "accepted"]
    with Purgatory(path) as again:
        assert (again.progress("k"), again.progress("m")) == (1, 1)


# What it keeps.


def test_a_key_that_nobody_needs_is_forgotten_after_the_stated_time(
    open_waits: Callable[..., Purgatory], clock: ManualClock
) -> None:
    waits = open_waits(forget_keys_after_ms=1_000)
    waits.signal("idle", 1)
    waits.signal("needed", 1)
    waits.submit("a", [("needed", 1), ("never", 1)], 10_000_000)
    clock.advance(500)
    waits = open_waits(forget_keys_after_ms=1_000)
    waits.signal("tick", 1)
    assert waits.progress("idle") == 1
    clock.advance(1_000)
    waits.signal("tick", 2)
    assert waits.progress("idle") is None
    assert waits.progress("needed") == 1
    waits = open_waits(forget_keys_after_ms=1_000)
    assert waits.progress("idle") is None
    assert waits.submit("b", [("idle", 1)], 100).operation.status == "waiting"  # type: ignore[union-attr]
    waits.signal("never", 1)
    outcome = waits.get("a")
    assert outcome is not None
    assert outcome.status == "completed"


def test_neither_the_journal_nor_the_file_grows_with_history(
    open_waits: Callable[..., Purgatory],
    clock: ManualClock,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", 20_000)
    waits = open_waits(retention_ms=1_000, forget_keys_after_ms=1_000)
    waits.submit("keeps waiting", [("never", 1)], WEEK_MS)
    sizes = []
    for n in range(300):
        waits.submit_many([(f"{n}-{m}", [(f"k{n}", 1)], 300) for m in range(20)])
        waits.signal(f"k{n}", n % 2)
        clock.advance(100)
        with closing(sqlite3.connect(path)) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            (batches,) = connection.execute("SELECT count(*) FROM journal").fetchone()
        sizes.append((pages, batches))
    assert max(sizes[150:])[0] <= 1.1 * max(sizes[:150])[0]
    assert max(batches for _, batches in sizes) < 300
    assert open_waits(retention_ms=1_000).get("keeps waiting") is not None
