"""The recorder: what was taken and told is in the folder, once, whatever happens on the way."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import ManualClock, cli, durable, history, replay
from sojourn.durable import disk
from sojourn.errors import BadFile, Closed, InUse, OutOfRange
from sojourn.history import recorder as recorder_file
from sojourn.replay import files
from tests.history.world import (
    OUTCOME,
    TABLES,
    Dropped,
    World,
    abandon,
    ending,
    naive_ends,
    opened,
    read,
)
from tests.history.world import unsynced as unsynced

HOUR_MS = 3_600_000
START_MS = 1_763_244_000_000  # 2025-11-15T22:00
MINUTE_MS = 60_000


def hours(folder: Path, table: str) -> list[str]:
    return sorted(each.name for each in (folder / table).iterdir())


SYNC = disk.sync

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the recorder logs, whoever has silenced the package's log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.Logger("test")
    log.addHandler(handler)
    monkeypatch.setattr(recorder_file, "log", log)
    return lines


# Random traffic.


@pytest.mark.parametrize("seed", range(4))
def test_the_history_has_what_was_acknowledged_and_told_and_nothing_else(
    seed: int, tmp_path: Path
) -> None:
    world = World(seed, tmp_path)
    world.run(400)
    while len(world.waits):  # all end
        world.clock.advance(1_000_000)
    world.clock.advance(10)
    world.recorder.flush()
    check_against_notes(world)
    found = history.verify(world.data, world.folder)
    assert found.counts == {}, found.differences
    assert found.is_complete
    assert found.proven == len(world.operations)
    assert found.waiting == 0
    assert world.drops
    assert found.rows["forgotten"]
    repeats = Counter(row["id"] for row in world.operations)
    assert max(repeats.values()) > 1
    world.close()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 160))
def test_the_history_has_it_all_over_many_seeds(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path)
    world.run(1_500)
    while len(world.waits):
        world.clock.advance(1_000_000)
    world.clock.advance(10)
    world.recorder.flush()
    check_against_notes(world)
    found = history.verify(world.data, world.folder)
    assert found.counts == {}, found.differences
    world.close()


def check_against_notes(world: World) -> None:
    folder = world.folder
    operations, signals, cancels, told, forgotten = (read(folder, table) for table in TABLES)
    own = ("id", "submitted_ms", "timeout_ms", "requires", "needed")
    assert [{name: row[name] for name in own} for row in operations] == [
        {name: row[name] for name in own} for row in world.operations
    ]
    assert signals == world.signals
    assert cancels == world.cancels
    assert [row["number"] for row in told] == list(range(1, len(told) + 1))
    ends = naive_ends(world.operations, world.signals, world.cancels, forgotten)
    assert by_time([{name: row[name] for name in OUTCOME} for row in told]) == by_time(ends)


def by_time(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["at_ms"], row["id"], row["waited_ms"]))


# The folder.


def test_rows_lie_in_the_hour_of_their_batch_in_utc(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.submit("A", [("k", 1)], 90 * MINUTE_MS)
        clock.advance(HOUR_MS)
        waits.signal("other", 1)
        clock.advance(HOUR_MS)  # A expires at 23:30, told then
    assert hours(folder, "operations") == [
        "hour=2025-11-15T22",
        "hour=2025-11-15T23",
    ]
    assert [row["id"] for row in read(folder, "operations")] == ["A"]
    assert [row["status"] for row in read(folder, "outcomes")] == ["expired"]


def test_every_hour_has_a_file_of_each_table(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.signal("k", 1)
        clock.advance(HOUR_MS)
        waits.signal("k", 2)
    for table in TABLES:
        assert len(hours(folder, table)) == 2
        for hour in (folder / table).iterdir():
            assert len(list(hour.iterdir())) == 1


def test_a_small_part_grows_and_a_full_one_is_followed_by_the_next(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, folder, part_rows=10) as recorder,
    ):
        for n in range(25):
            waits.signal("k", n)
            recorder.flush()
    parts = sorted((folder / "signals").rglob("*.parquet"))
    assert [pq.ParquetFile(part).metadata.num_rows for part in parts] == [10, 10, 5]
    assert len(list((folder / "operations").rglob("*.parquet"))) == 1


def test_parts_are_not_split_by_restarts(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    for n in range(5):
        with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
            waits.signal("k", n)
    assert len(list((folder / "signals").rglob("*.parquet"))) == 1
    assert [row["offset"] for row in read(folder, "signals")] == [0, 1, 2, 3, 4]


def test_a_part_from_before_outcomes_had_their_timeout_goes_on_growing(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    for id in ("A", "B"):
        with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
            waits.submit(id, [("k", 1)], 70)
            clock.advance(100)
        if id == "A":
            (path,) = (folder / "outcomes").rglob("*.parquet")
            part = pq.ParquetFile(path).read()
            pq.write_table(part.drop_columns(["timeout_ms"]), path)
    told = read(folder, "outcomes")
    assert [(row["id"], row["timeout_ms"]) for row in told] == [("A", None), ("B", 70)]
    found = history.verify(tmp_path / "waits.db", folder)
    assert (found.proven, found.counts) == (2, {})


def test_classes_payloads_and_traces_are_recorded(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.submit("A", [("k", 1)], 5, class_="order", payload={"a": [1, None]})
        waits.submit("B", [("k", 1)], 5, payload=b"\0\xff", traceparent=trace)
        waits.submit("C", [("k", 1)], 5, payload="ö")
        clock.advance(100)
    rows = read(folder, "operations")
    assert [row["class"] for row in rows] == ["order", "", ""]
    assert [row["payload"] for row in rows] == ['{"a":[1,null]}', None, '"ö"']
    assert [row["payload_bytes"] for row in rows] == [None, b"\0\xff", None]
    assert [row["traceparent"] for row in rows] == [None, trace, None]
    assert [row["class"] for row in read(folder, "outcomes")] == ["order", "", ""]


# Ending in the middle.


def test_a_recorder_that_ends_at_any_step_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    clock = ManualClock(START_MS + 59 * MINUTE_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits:
        recorder = history.Recorder(waits, folder, part_rows=4)
        recorder.start()
        sent = 0
        step = 0
        has_ended = True
        while has_ended:
            for _ in range(3):  # so that parts are filled at different steps
                waits.submit(f"op-{sent}", [(f"k{sent}", 1)], 20)
                waits.signal(f"k{sent}", 1)
                sent += 1
            clock.advance(MINUTE_MS // 3)  # an hour ends on the way
            has_ended = False
            with ending(step):
                try:
                    recorder.flush()
                except Dropped:
                    has_ended = True
            check_no_doubles(folder, sent)
            abandon(recorder)
            recorder = history.Recorder(waits, folder, part_rows=4)
            recorder.start()
            check_no_doubles(folder, sent)
            recorder.flush()
            assert [row["id"] for row in read(folder, "operations")] == ids(sent)
            assert [row["id"] for row in read(folder, "outcomes")] == ids(sent)
            assert not list(folder.rglob(".*"))
            step += 1
        assert step > 20
        recorder.close()
    found = history.verify(tmp_path / "waits.db", folder)
    assert found.counts == {}, found.differences
    assert found.proven == sent


def ids(sent: int) -> list[str]:
    return [f"op-{n}" for n in range(sent)]


def check_no_doubles(folder: Path, sent: int) -> None:
    """A reader that comes now sees rows up to some moment, each once."""
    for table in ("operations", "outcomes"):
        seen = [row["id"] for row in read(folder, table)]
        assert seen == ids(sent)[: len(seen)]


def test_what_counts_is_synced_before_and_the_journal_is_released_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order that a power cut asks for: sync a file, name it, sync the name; then the next."""
    monkeypatch.setattr(disk, "sync", SYNC)
    steps: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        steps.append(("sync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def note_name(old: Path, new: Path) -> None:
        steps.append(("name", new.name))
        replace(old, new)

    with opened(tmp_path / "waits.db", ManualClock(START_MS)) as waits:
        recorder = history.Recorder(waits, tmp_path / "history")
        recorder.start()
        waits.signal("k", 1)
        keep = waits.keep_journal

        def note_keep(name: str, batch: int | None) -> None:
            steps.append(("keep", ""))
            keep(name, batch)

        monkeypatch.setattr(waits, "keep_journal", note_keep)
        monkeypatch.setattr(os, "fsync", note_sync)
        monkeypatch.setattr(os, "replace", note_name)
        recorder.flush()
        monkeypatch.undo()
        recorder.close()
    part, hour = "part-000000000001.parquet", "hour=2025-11-15T22"
    written = [("sync", f".{part}.unfinished"), ("name", part), ("sync", hour)]
    expected = []
    for table in TABLES:
        expected += [("sync", table), *written]
    expected += [
        ("sync", f".{hour}.json.unfinished"),
        ("name", f"{hour}.json"),
        ("sync", "_hours"),
        ("keep", ""),
    ]
    assert steps == expected


def test_a_folder_that_cannot_be_written_is_tried_again_and_the_journal_waits(
    tmp_path: Path, said: list[str]
) -> None:
    folder = tmp_path / "history"
    with durable.Purgatory(tmp_path / "waits.db") as waits:
        recorder = history.Recorder(waits, folder, every_ms=5)
        failed = threading.Event()
        written = threading.Event()
        flush = recorder._flush

        def flush_or_fail() -> int:
            try:
                if not failed.is_set():
                    raise BadFile("no space left on device")
                flushed = flush()
                if recorder.position == waits.last_batch:
                    written.set()
                return flushed
            finally:
                failed.set()

        recorder._flush = flush_or_fail  # type: ignore[method-assign]
        recorder.start()
        waits.submit("A", [("k", 1)], 60_000)
        assert failed.wait(60)
        waits.signal("k", 1)
        assert written.wait(60)
        recorder.close()
        assert recorder.error is None
    assert [row["status"] for row in read(folder, "outcomes")] == ["completed"]
    assert any("tried again: no space left on device" in line for line in said)


# On the system clock.


def test_on_the_system_clock_a_thread_follows_and_closing_records_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    with durable.Purgatory(tmp_path / "waits.db") as waits:
        with history.Recorder(waits, folder, every_ms=1) as recorder:
            waits.signal("k", 1)
            follow(recorder, 1)
            for n in range(2, 100):
                waits.signal("k", n)
        assert recorder.position == waits.last_batch
        with pytest.raises(Closed, match="not running"):
            recorder.flush()
    assert [row["offset"] for row in read(folder, "signals")] == list(range(1, 100))


def follow(recorder: history.Recorder, batch: int) -> None:
    """Wait until the thread has come so far."""
    came = threading.Event()
    for _ in range(60_000):
        if recorder.position >= batch:
            return
        came.wait(0.001)
    raise AssertionError(f"{recorder} has not come to {batch}")


# Which folder.


def recorded(tmp_path: Path) -> tuple[ManualClock, Path]:
    """A clock and a folder, with the history of one signal to waits.db."""
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.signal("k", 1)
    return clock, folder


def test_a_folder_belongs_to_one_data_file(tmp_path: Path) -> None:
    clock, folder = recorded(tmp_path)
    with (
        opened(tmp_path / "other.db", clock) as other,
        pytest.raises(BadFile, match="does not continue"),
    ):
        history.Recorder(other, folder).start()


def test_an_old_copy_of_the_data_file_is_refused(tmp_path: Path) -> None:
    clock, folder = recorded(tmp_path)
    shutil.copy(tmp_path / "waits.db", tmp_path / "copy.db")
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.signal("k", 2)
    with (
        opened(tmp_path / "copy.db", clock) as copy,
        pytest.raises(BadFile, match="an old copy or another file"),
    ):
        history.Recorder(copy, folder).start()


def test_an_old_copy_of_the_folder_is_refused(tmp_path: Path) -> None:
    clock, folder = recorded(tmp_path)
    shutil.copytree(folder, tmp_path / "copy")
    with opened(tmp_path / "waits.db", clock) as waits:
        with history.Recorder(waits, folder):
            waits.signal("k", 2)
        with pytest.raises(BadFile, match="does not continue"):
            history.Recorder(waits, tmp_path / "copy").start()


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with (
        opened(tmp_path / "waits.db", ManualClock()) as waits,
        pytest.raises(BadFile, match=r"thesis\.tex is in it"),
    ):
        history.Recorder(waits, tmp_path).start()


def test_two_recorders_cannot_have_one_folder(tmp_path: Path) -> None:
    with opened(tmp_path / "waits.db", ManualClock(START_MS)) as waits:
        recorder = history.Recorder(waits, tmp_path / "history")
        with recorder:
            with pytest.raises(InUse, match="is open in process"):
                history.Recorder(waits, tmp_path / "history").start()
            with pytest.raises(OutOfRange, match="started already"):
                recorder.start()


def test_another_folder_takes_over_and_the_journal_is_held_for_it_alone(
    tmp_path: Path, said: list[str]
) -> None:
    with opened(tmp_path / "waits.db", ManualClock(START_MS)) as waits:
        with history.Recorder(waits, tmp_path / "history"):
            waits.signal("k", 1)
        with history.Recorder(waits, tmp_path / "another"):
            waits.signal("k", 2)
        assert len(waits.journal_readers()) == 1
    assert any("its history goes to" in line for line in said)
    # The journal still had everything, so the other one does too.
    assert [row["offset"] for row in read(tmp_path / "another", "signals")] == [1, 2]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "waits.db", ManualClock(START_MS)) as waits:
        with history.Recorder(waits, tmp_path / "history"):
            waits.signal("k", 1)
        path = tmp_path / "history" / "_history.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
        with pytest.raises(BadFile, match="newer version"):
            history.Recorder(waits, tmp_path / "history").start()


@pytest.mark.parametrize(
    ("options", "message"), [({"every_ms": 0}, "every_ms"), ({"part_rows": 0}, "part_rows")]
)
def test_options_are_checked(options: dict[str, int], message: str, tmp_path: Path) -> None:
    with (
        opened(tmp_path / "waits.db", ManualClock()) as waits,
        pytest.raises(OutOfRange, match=message),
    ):
        history.Recorder(waits, tmp_path / "history", **options)


# Who reads it.


def test_replay_and_report_read_it_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.submit("A", [("k", 1)], 10, class_="order")
        clock.advance(HOUR_MS)
        waits.submit("B", [("k", 1)], 10_000, class_="order", payload=b"bytes")
        waits.signal("k", 1)
        waits.submit("C", [("l", 1)], 10_000)
        waits.cancel("C")
    arguments = [str(folder / name) for name in ("operations", "signals")]
    arguments += ["--cancels", str(folder / "cancels"), "--out", str(tmp_path / "out"), "--report"]
    assert cli.main(["replay", *arguments, "--quiet"]) == 0
    outcomes = pa.concat_tables(
        pq.ParquetFile(path).read() for path in (tmp_path / "out/outcomes").iterdir()
    ).to_pylist()
    told = read(folder, "outcomes")
    assert by_time([{name: row[name] for name in OUTCOME} for row in outcomes]) == by_time(
        [{name: row[name] for name in OUTCOME} for row in told]
    )
    assert "order" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert cli.main(["report", str(folder), "--quiet", "-o", str(tmp_path / "report.html")]) == 0
    capsys.readouterr()


def test_without_a_cancel_there_is_an_empty_table_of_cancels(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with opened(tmp_path / "waits.db", clock) as waits, history.Recorder(waits, folder):
        waits.submit("A", [("k", 1)], 10)
        clock.advance(100)
    found = files.resolve_files(folder / "operations", folder / "signals", folder / "cancels")
    assert isinstance(found, replay.Resolution)
    assert found.outcomes["status"].to_pylist() == ["expired"]
