"""Faults, one by one: what is refused, what goes on, and what the error says."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sojourn import ManualClock, compiled, durable
from sojourn.durable import AsyncPurgatory, Purgatory, snapshots, store
from sojourn.durable.requests import Request
from sojourn.durable.submissions import checked_submission
from sojourn.errors import BadFile, Closed, Full, Missed, NotWritten, WrongType
from tests.durable.world import Faults, FaultyConnection, connect_unsynced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WEEK_MS = 7 * 86_400_000

pytestmark = pytest.mark.usefixtures("quiet_log")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file of this process grows beyond this size: what a full disk looks like."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_refuses_commands_and_goes_on_reading(path: Path) -> None:
    with Purgatory(path) as waits:
        waits.submit("a", [("k", 1)], 60_000)
        waits.submit("b", [("k", 5)], 60_000)
        waits.signal("k", 1)
        acknowledged = ["a", "b"]
        with largest_file(path.with_name("waits.db-wal").stat().st_size + 200_000):
            rows = [(f"large-{n}", [("k", 9)], 60_000, None, "", b"x" * 10_000) for n in range(100)]
            answers = [waits.submit_many([row])[0] for row in rows]
            n = [answer.verdict for answer in answers].index("refused")
            acknowledged += [row[0] for row in rows[:n]]
            assert isinstance(answers[n].error, NotWritten)
            # Reads go on; nothing of what was refused is there.
            assert waits.get(f"large-{n}") is None
            assert [outcome.id for outcome in waits.outcomes()] == ["a"]
            with pytest.raises(NotWritten, match="try again"):
                waits.submit("more", [("k", 9)], 60_000, payload=b"x" * 300_000)
            answers = waits.submit_many([("more", [("k", 9)], 60_000, None, "", b"x" * 300_000)])
            assert isinstance(answers[0].error, NotWritten)
        # There is room again.
        assert waits.submit(f"large-{n}", [("k", 9)], 60_000, payload=b"y").verdict == "accepted"
        waits.signal("k", 5)
        acknowledged.append(f"large-{n}")
    with Purgatory(path) as waits:
        assert all(waits.get(id) is not None for id in acknowledged)
        assert waits.get("more") is None
        assert [outcome.id for outcome in waits.outcomes()] == ["a", "b"]


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO journal", "INSERT INTO out", "COMMIT"])
def test_a_batch_that_fails_anywhere_changes_nothing(path: Path, statement: str) -> None:
    class Once(Faults):
        armed = False

        def maybe(self, text: str) -> None:
            if self.armed and text.startswith(statement):
                self.armed = False
                raise sqlite3.OperationalError("disk I/O error")

    faults = Once(random.Random(0))
    clock = ManualClock()
    with Purgatory(path, clock=clock, connect=lambda p: FaultyConnection(p, faults)) as waits:
        waits.submit_many([("a", [("k", 1)], 100), ("b", [("k", 9), ("m", 1)], 100)])
        before = waits.get("a"), waits.get("b")
        faults.armed = True
        with pytest.raises(NotWritten, match="disk I/O error"):
            waits.signal("k", 1)
        faults.armed = True
        answer = waits.signal_many([("k", 10), ("m", 0)])
        assert [a.verdict for a in answer] == ["refused", "refused"]
        assert (waits.get("a"), waits.get("b"), waits.progress("k")) == (*before, None)
        assert waits.outcomes() == []
        clock.advance(10)
        waits.signal("k", 1)
        assert [(o.id, o.by_key) for o in waits.outcomes()] == [("a", "k")]
        waits.signal_many([("k", 9), ("m", 1)])
        assert [(o.id, o.by_key) for o in waits.outcomes(after=1)] == [("b", "k")]


def test_expiries_that_could_not_be_written_are_written_later(path: Path) -> None:
    faults = Faults(random.Random(0))
    clock = ManualClock()
    with Purgatory(path, clock=clock, connect=lambda p: FaultyConnection(p, faults)) as waits:
        waits.submit_many([("a", [("k", 1)], 10), ("b", [("k", 1)], 5_000)])
        faults.rate = 1.0
        clock.advance(1_000)
        assert waits.outcomes() == []
        assert faults.failed == 1  # it does not try in a circle
        operation = waits.get("a")
        assert operation is not None
        assert operation.status == "waiting"
        faults.rate = 0.0
        clock.advance(1_100)
        (outcome,) = waits.outcomes()
        assert (outcome.id, outcome.status, outcome.at_ms) == ("a", "expired", 10)
        clock.advance(5_000)
        assert [outcome.id for outcome in waits.outcomes(after=1)] == ["b"]


def test_a_signal_does_not_complete_what_was_overdue_when_a_write_failed(path: Path) -> None:
    faults = Faults(random.Random(0))
    clock = ManualClock()
    with Purgatory(path, clock=clock, connect=lambda p: FaultyConnection(p, faults)) as waits:
        waits.submit("a", [("k", 1)], 10)
        faults.rate = 1.0
        clock.advance(100)
        faults.rate = 0.0
        waits.signal("k", 1)
        assert [outcome.status for outcome in waits.outcomes()] == ["expired"]


def test_a_file_that_cannot_be_written_is_refused_by_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Purgatory(path).close()
    monkeypatch.setattr("os.access", lambda *_: False)  # who runs this may be root
    with pytest.raises(BadFile, match=r"waits.db cannot be written"):
        Purgatory(path)
    monkeypatch.undo()
    Purgatory(path).close()  # and is not locked by that


def test_a_file_that_becomes_read_only_refuses_commands_and_goes_on_reading(path: Path) -> None:
    with Purgatory(path, clock=ManualClock()) as waits:
        waits.submit("a", [("k", 1)], 100)
    with Purgatory(
        path,
        clock=ManualClock(),
        connect=lambda p: sqlite3.connect(f"file:{p}?mode=ro", uri=True, isolation_level=None),
    ) as waits:
        with pytest.raises(NotWritten, match="readonly"):
            waits.signal("k", 1)
        assert waits.get("a") is not None


def test_a_newer_format_is_refused(path: Path) -> None:
    Purgatory(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(BadFile, match=r"format 99.*reads up to 1.*newer sojourn"):
        Purgatory(path)


def test_a_file_of_another_program_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE shopping (item)")
    with pytest.raises(BadFile, match="another program"):
        Purgatory(path)
    path.write_bytes(b"no SQLite at all" * 100)
    with pytest.raises(BadFile, match=r"waits.db.*not a database"):
        Purgatory(path)
    with pytest.raises(BadFile, match="cannot be opened"):
        Purgatory(path / "nowhere" / "waits.db")


def damage(path: Path, text: bytes) -> None:
    """Change one letter of the text where it stands in the file."""
    content = path.read_bytes()
    assert text in content
    path.write_bytes(content.replace(text, text[:-1] + bytes([text[-1] ^ 1])))


def test_damage_is_found_by_checksum_and_named(path: Path) -> None:
    with Purgatory(path, clock=ManualClock()) as waits:
        waits.submit("waiting", [("k-journal", 1)], 1_000, payload="in the journal")
        waits.submit("ended", [("k2", 1)], 1_000, payload="P" * 50)
        waits.cancel("ended")
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    damage(copy, b"k-journal")
    with pytest.raises(BadFile, match=r"copy.db: the checksum of batch 1 of the journal is wrong"):
        Purgatory(copy, clock=ManualClock())
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE outcomes SET at_ms = at_ms + 1")
        connection.commit()
    with Purgatory(copy, clock=ManualClock()) as waits:
        with pytest.raises(BadFile, match="the checksum of outcome 1 is wrong"):
            waits.get("ended")
        with pytest.raises(BadFile, match="the checksum of outcome 1 is wrong"):
            waits.outcomes()
        assert waits.get("waiting") is not None
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("DELETE FROM journal WHERE batch = 2")
        connection.commit()
    with pytest.raises(BadFile, match="batch 3 of the journal does not follow batch 1"):
        Purgatory(copy, clock=ManualClock())
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("DELETE FROM journal WHERE batch = 3")
        connection.commit()
    with pytest.raises(BadFile, match="outcome 1 is in no batch"):
        Purgatory(copy, clock=ManualClock())


def test_damage_to_a_snapshot_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_JOURNAL_BYTES_LEAST", 1_000)
    clock = ManualClock()
    with Purgatory(path, clock=clock) as waits:
        waits.submit_many([(f"op-{n}", [("never", 1)], WEEK_MS) for n in range(100)])
        for n in range(10):
            waits.signal("k", n)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM snapshots").fetchone() == (1,)
        assert connection.execute("SELECT min(batch) > 1 FROM journal").fetchone() == (1,)
        connection.execute("UPDATE parts SET body = zeroblob(length(body)) WHERE part = 0")
        connection.commit()
    with pytest.raises(BadFile, match="the checksum of part 0 of snapshot 1 is wrong"):
        Purgatory(path, clock=clock)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM parts WHERE part = 0")
        connection.commit()
    with pytest.raises(BadFile, match="snapshot 1 has 0 parts, not 1"):
        Purgatory(path, clock=clock)


def test_a_page_that_is_damaged_is_reported_with_the_files_name(path: Path) -> None:
    with Purgatory(path, clock=ManualClock()) as waits:
        waits.submit_many([(f"op-{n}", [("never", 1)], WEEK_MS) for n in range(1_000)])
    content = bytearray(path.read_bytes())
    content[4096 : 4096 + 4096] = bytes(4096)  # the journal's own page
    path.write_bytes(bytes(content))
    with pytest.raises(BadFile, match=r"waits.db"):
        Purgatory(path, clock=ManualClock())


def test_a_torn_tail_of_the_log_is_as_if_it_had_not_been_written(
    path: Path, tmp_path: Path
) -> None:
    clock = ManualClock()
    log = path.with_name("waits.db-wal")
    with Purgatory(path, clock=clock) as waits:
        waits.submit("a", [("k", 1)], WEEK_MS)
        size = log.stat().st_size
        waits.submit("b", [("k", 1)], WEEK_MS)
        assert log.stat().st_size > size
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        copy.with_name("copy.db-wal").write_bytes(log.read_bytes()[:-100])
    with Purgatory(copy, clock=clock) as waits:
        assert waits.get("a") is not None
        assert waits.get("b") is None
        assert waits.submit("b", [("k", 1)], WEEK_MS).verdict == "accepted"


@pytest.mark.parametrize(
    "count", [20_000 if compiled else 5_000, pytest.param(1_000_000, marks=pytest.mark.nightly)]
)
def test_very_many_expiries_in_one_millisecond(path: Path, count: int) -> None:
    clock = ManualClock()
    with Purgatory(path, clock=clock, connect=connect_unsynced) as waits:
        answers = waits.submit_many((f"{n}", [("k", 1)], 10_000_000) for n in range(count))
        last = answers[-1].operation
        assert last is not None
        clock.advance(last.deadline_ms + 1 - clock.now_ms)
        assert len(waits) == 0
        number = 0
        while some := waits.outcomes(number, 50_000):
            assert [outcome.id for outcome in some] == [
                str(n) for n in range(number, number + len(some))
            ]
            assert {outcome.status for outcome in some} == {"expired"}
            number += len(some)
        assert number == count


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_does_not_keep_the_file_from_the_next_process(path: Path) -> None:
    ours, theirs = os.pipe()
    started, starts = os.pipe()
    waits = Purgatory(path, clock=ManualClock())  # which has no threads
    child = os.fork()
    if child == 0:
        os.write(starts, b".")
        os.read(ours, 1)
        os._exit(0)
    os.read(started, 1)
    waits.close()
    Purgatory(path, clock=ManualClock()).close()
    os.write(theirs, b".")
    os.waitpid(child, 0)
    for end in (ours, theirs, started, starts):
        os.close(end)


def test_a_machine_that_fails_behind_the_disk_goes_no_further(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    waits = Purgatory(path, clock=clock)
    waits.submit("a", [("k", 1)], 100)

    class Broken:
        def __init__(self, machine: object) -> None:
            self._machine = machine

        def __getattr__(self, name: str) -> object:
            return getattr(self._machine, name)

        def apply(self, plan: object) -> None:
            raise MemoryError

    monkeypatch.setattr(waits._shell, "machine", Broken(waits._shell.machine))
    with pytest.raises(MemoryError):
        waits.signal("k", 1)
    with pytest.raises(Closed, match="opened again"):
        waits.signal("k", 2)
    waits.close()
    with Purgatory(path, clock=clock) as waits:
        assert [outcome.id for outcome in waits.outcomes()] == ["a"]


def test_after_an_interrupt_in_the_middle_of_a_write_the_file_is_opened_again(path: Path) -> None:
    class Interrupted(Faults):
        armed = False

        def maybe(self, text: str) -> None:
            if self.armed and text.startswith("COMMIT"):
                raise KeyboardInterrupt

    faults = Interrupted(random.Random(0))
    clock = ManualClock()
    waits = Purgatory(path, clock=clock, connect=lambda p: FaultyConnection(p, faults))
    waits.submit("a", [("k", 1)], 100)
    faults.armed = True
    with pytest.raises(KeyboardInterrupt):
        waits.signal("k", 1)
    faults.armed = False
    with pytest.raises(Closed, match="opened again"):
        waits.signal("k", 1)
    waits.close()
    with Purgatory(path, clock=clock) as waits:
        assert waits.signal("k", 1).verdict == "accepted"
        assert [outcome.id for outcome in waits.outcomes()] == ["a"]


# Checkpoints.


def restarts_of_log(path: Path) -> int:
    """How often SQLite has begun its log anew: a number in the log's head."""
    head = path.with_name("waits.db-wal").read_bytes()[:32]
    return int.from_bytes(head[12:16], "big")


def test_the_log_begins_anew_while_batches_go_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHECKPOINT_PAGES", 20)
    with Purgatory(path, connect=connect_unsynced) as waits:
        for n in range(5_000):
            waits.submit(f"{n}", [("k", 1)], 600_000, payload=b"x" * 3_000)
            if restarts_of_log(path) >= 3:
                break
        assert restarts_of_log(path) >= 3
        assert path.with_name("waits.db-wal").stat().st_size < 5_000 * 3_000
        count = len(waits)
    with Purgatory(path) as waits:
        assert len(waits) == count == n + 1


def test_a_checkpoint_that_fails_is_logged_and_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_CHECKPOINT_PAGES", 5)
    tries: list[None] = []

    def fail(self: store.Store) -> None:
        tries.append(None)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store.Store, "checkpoint", fail)
    with Purgatory(path, connect=connect_unsynced) as waits:
        for n in range(5_000):
            waits.submit(f"{n}", [("k", 1)], 600_000, payload=b"x" * 3_000)
            if len(tries) >= 3:
                break
        assert len(tries) >= 3
        assert waits.write_error is None


# asyncio.


def test_tasks_await_the_same_answers(path: Path) -> None:
    async def main() -> None:
        async with AsyncPurgatory(Purgatory(path, max_waiting=20)) as waits:
            answers = await asyncio.gather(
                *(waits.submit(f"op-{n}", [("k", n + 1)], 60_000) for n in range(20))
            )
            assert {answer.verdict for answer in answers} == {"accepted"}
            with pytest.raises(Full):
                await waits.submit("one more", [("k", 1)], 60_000)
            mail = waits.subscription("mail")
            reading = asyncio.create_task(mail.read(wait_ms=30_000))
            nothing = await waits.outcomes(wait_ms=1)
            assert nothing == []
            assert (await waits.signal("k", 5)).verdict == "accepted"
            assert [outcome.id for outcome in await reading] == [f"op-{n}" for n in range(5)]
            await mail.commit()
            assert (mail.name, mail.position) == ("mail", 5)
            assert (await waits.cancel("op-7")).verdict == "accepted"
            assert [a.verdict for a in await waits.signal_many([("k", 6), ("k", "x")])] == [  # type: ignore[list-item]
                "accepted",
                "refused",
            ]
            assert [a.verdict for a in await waits.cancel_many(["op-7", "op-8"])] == [
                "ended",
                "accepted",
            ]
            rows = [("op-9", [("k", 10)], 60_000), ("new", [("k", 10)], 60_000)]
            assert [a.verdict for a in await waits.submit_many(rows)] == ["duplicate", "accepted"]
            ended = await waits.get("op-7")
            assert ended is not None
            assert ended.status == "cancelled"

    asyncio.run(main())


def test_a_cancelled_task_leaves_the_others_their_answers(path: Path) -> None:
    async def main() -> None:
        async with AsyncPurgatory(Purgatory(path)) as waits:
            tasks = [
                asyncio.create_task(waits.submit(f"op-{n}", [("k", 1)], 60_000)) for n in range(10)
            ]
            await asyncio.sleep(0)
            tasks[3].cancel()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(answers[3], asyncio.CancelledError)
            others = [answer for n, answer in enumerate(answers) if n != 3]
            assert {answer.verdict for answer in others} == {"accepted"}  # type: ignore[union-attr]

    asyncio.run(main())


def test_a_batch_wakes_the_loop_once_for_all_its_tasks(path: Path) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wakes: list[object] = []
        wake = loop.call_soon_threadsafe

        def count(callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
            wakes.append(callback)
            return wake(callback, *args, context=context)

        async with AsyncPurgatory(Purgatory(path)) as waits:
            all_sent = threading.Event()
            waits.purgatory.inspect(lambda machine: all_sent.wait(60))  # the writer waits
            requests = [Request(signals=[("k", n)]) for n in range(1, 51)]
            waiters = [waits.purgatory.send(request) for request in requests]
            loop.call_soon_threadsafe = count  # type: ignore
            all_sent.set()
            await asyncio.gather(*waiters)
            del loop.call_soon_threadsafe
        assert len(wakes) == 1

    asyncio.run(main())


def test_a_loop_that_was_closed_stops_nobody(path: Path) -> None:
    with Purgatory(path) as waits:
        loop = asyncio.new_event_loop()

        async def send() -> None:
            waits.send(Request(submissions=[checked_submission("left", [("k", 1)], 60_000)]))

        all_sent = threading.Event()
        waits.inspect(lambda machine: all_sent.wait(60))  # the writer waits
        loop.run_until_complete(send())
        loop.close()
        all_sent.set()
        assert waits.submit("stayed", [("k", 1)], 60_000).verdict == "accepted"
        assert waits.submit("left", [("k", 1)], 60_000).verdict == "duplicate"


def test_a_path_is_no_purgatory(path: Path) -> None:
    with pytest.raises(WrongType, match=r"takes a durable\.Purgatory.*AsyncPurgatory\(Purgatory\("):
        AsyncPurgatory(path)  # type: ignore[arg-type]


def test_the_public_names() -> None:
    assert issubclass(Missed, LookupError)
    assert durable.Purgatory is Purgatory
