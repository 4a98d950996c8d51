"""Verification: it proves what is so, finds what is not, and says what it cannot know."""

from __future__ import annotations

import json
import random
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import ManualClock, cli, history
from sojourn.cli import entry
from sojourn.errors import BadFile, NoSuchFile
from sojourn.history import names as names_file
from sojourn.history.findings import Kind, Reason
from sojourn.history.folder import Folder
from sojourn.history.stretch import Stretch
from tests.checkout import ROOT
from tests.history.world import World, change, opened, parts, read, remove_first_hour
from tests.history.world import unsynced as unsynced

HOUR_MS = 3_600_000
START_MS = 1_763_244_000_000  # 2025-11-15T22:00
Row = dict[str, Any]


pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with waits.db and history: A to E ended in all ways, F waits."""
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        waits.submit("A", [("a", 1), ("b", 2)], 1_000)
        waits.submit("B", [("a", 9)], 20)
        waits.submit("C", [("c", 1)], 1_000_000)
        waits.signal("a", 1)
        waits.signal("b", 5)
        waits.cancel("C")
        clock.advance(HOUR_MS)
        waits.submit("D", [("a", 1), ("b", 1)], 10)
        waits.submit("E", [("c", 8)], 10_000_000)
        waits.submit("F", [("c", 9)], 10_000_000)
        waits.signal("c", 8)
    return tmp_path


def verify(path: Path, **options: Any) -> history.Verification:
    return history.verify(path / "waits.db", path / "history", **options)


# What is so.


def test_a_history_as_recorded_is_proven(recorded: Path) -> None:
    verification = verify(recorded)
    assert verification.is_proven
    assert (verification.proven, verification.waiting, verification.in_data) == (5, 1, 5)
    assert verification.unproven == {} or not any(verification.unproven.values())
    assert verification.rows == {
        "operations": 6,
        "signals": 3,
        "cancels": 1,
        "outcomes": 5,
        "forgotten": 0,
    }
    assert (verification.hours, verification.removed_hours, verification.is_complete) == (
        2,
        0,
        True,
    )


def test_a_deadline_at_the_last_moment_is_open(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        submitted_ms = waits.submit("A", [("k", 1)], 100).at_ms
        assert submitted_ms is not None
        clock.advance(submitted_ms + 99 - clock.now_ms)
        assert waits.signal("other", 1).at_ms in (submitted_ms + 99, submitted_ms + 100)
        if waits.signal("other", 2).at_ms == submitted_ms + 100:
            assert waits.get("A").status == "waiting"  # type: ignore[union-attr]
    verification = verify(tmp_path)
    assert verification.is_proven, verification.differences
    assert verification.waiting + verification.proven == 1


def test_a_history_is_verified_while_it_is_recorded(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history") as recorder,
    ):
        waits.signal("k", 1)
        waits.submit("A", [("k", 1)], 100)
        recorder.flush()
        waits.submit("B", [("k", 1)], 100)
        verification = verify(tmp_path)
        assert verification.is_proven, verification.differences
        assert verification.unproven[Reason.NOT_RECORDED] == 1
        assert verification.proven == 1


def test_files_that_are_read_elsewhere_stay_what_they_were_while_recording_goes_on(
    tmp_path: Path,
) -> None:
    clock = ManualClock(START_MS)
    folder = tmp_path / "history"
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, folder) as recorder,
    ):
        waits.signal("k", 1)
        recorder.flush()
        with Stretch.of(Folder(folder)).pinned() as paths:
            (path,) = paths("signals")
            waits.signal("k", 2)
            recorder.flush()
            assert pq.ParquetFile(path).metadata.num_rows == 1
            assert len(read(folder, "signals")) == 2
        assert not list(folder.glob("_verifying*"))


def test_an_empty_history_says_so(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        pass
    with pytest.raises(NoSuchFile, match="nothing was recorded yet"):
        verify(tmp_path)


# Keys that were forgotten, ids that came again.


def test_a_forgotten_key_begins_anew(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock, forget_keys_after_ms=10, retention_ms=10) as waits,
        history.Recorder(waits, tmp_path / "history") as recorder,
    ):
        waits.signal("k", 5)
        clock.advance(100)
        waits.signal("other", 1)  # k is forgotten with this batch
        assert waits.progress("k") is None
        waits.submit("A", [("k", 5)], 50)
        clock.advance(100)
        recorder.flush()  # an outcome is kept until it is recorded
        clock.advance(100)
        waits.signal("other", 2)
        waits.submit("A", [("k", 1)], 50)  # the id is free again
        waits.signal("k", 1)
        clock.advance(100)
        waits.signal("other", 3)
    assert [row["key"] for row in read(tmp_path / "history", "forgotten")].count("k") >= 1
    verification = verify(tmp_path)
    assert verification.is_proven, verification.differences
    assert verification.proven == 2


def test_of_keys_that_hold_at_once_the_smallest_is_told_also_when_they_were_forgotten(
    tmp_path: Path,
) -> None:
    """`k` NUL is greater than `k`; so must be their names, whichever of the two was forgotten."""
    keys = ["k", "k\0", "k\0\0", "k\0\x01", "k0", "ka"]
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock, forget_keys_after_ms=10) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        rng = random.Random(7)
        for n in range(60):
            some = rng.sample(keys, 3)
            waits.submit(f"op-{n}", [(key, n + 1) for key in some], 1_000, needed=1)
            waits.signal_many([(key, n + 1) for key in some])
            assert waits.get(f"op-{n}").by_key == min(some)  # type: ignore[union-attr]
            clock.advance(rng.choice([0, 30]))
    forgotten = {row["key"] for row in read(tmp_path / "history", "forgotten")}
    assert forgotten == set(keys)
    verification = verify(tmp_path)
    assert verification.is_proven, verification.differences
    assert verification.proven == 60


def test_names_keep_the_order_of_keys_and_can_be_taken_back() -> None:
    rng = random.Random(3)

    def some_key() -> str:
        return "".join(rng.choice("\0\x01\x02a0") for _ in range(rng.randrange(5)))

    keys = [some_key() for _ in range(4_000)]
    counts = np.array([rng.choice([0, 0, 1, 2, 10, 12]) for _ in keys])
    given = names_file._named(pa.array(keys), counts)
    assert names_file._plain(given).to_pylist() == keys
    named = given.to_pylist()
    for n in range(0, len(keys), 2):
        if keys[n] != keys[n + 1]:
            assert (keys[n] < keys[n + 1]) == (named[n] < named[n + 1])
    assert len(set(named)) == len(set(zip(keys, counts.tolist(), strict=True)))


def test_events_before_a_time_are_counted_by_name() -> None:
    rng = random.Random(5)
    events = [(rng.choice("abc"), rng.randrange(20)) for _ in range(50)]
    rows = [(rng.choice("abcd"), rng.randrange(22)) for _ in range(500)]
    table = pa.table({"key": [key for key, _ in events], "at_ms": [at for _, at in events]})
    counts = names_file.times_before(
        pa.array([key for key, _ in rows]),
        np.array([at for _, at in rows]),
        table,
        "key",
        "at_ms",
    )
    assert counts.tolist() == [
        sum(other == key and then < at for other, then in events) for key, at in rows
    ]


# What is not so.


def check_found(recorded: Path, kinds: set[str]) -> history.Verification:
    verification = verify(recorded)
    assert not verification.is_proven
    assert set(verification.counts) == kinds
    assert len(verification.differences) == sum(verification.counts.values())
    return verification


def test_an_outcome_that_was_changed_is_found(recorded: Path) -> None:
    def later(rows: list[Row]) -> list[Row]:
        return [{**row, "at_ms": row["at_ms"] + (row["id"] == "A")} for row in rows]

    change(parts(recorded, "outcomes")[0], later)
    verification = check_found(recorded, {Kind.CHANGED, Kind.DATA})
    first = verification.differences[0]
    assert first.name == "A"
    assert isinstance(first.told, dict)
    assert isinstance(first.replayed, dict)
    assert first.told["at_ms"] == first.replayed["at_ms"] + 1


@pytest.mark.parametrize(("column", "value"), [("status", "expired"), ("by_key", "a")])
def test_every_column_of_an_outcome_is_compared(recorded: Path, column: str, value: str) -> None:
    def other(rows: list[Row]) -> list[Row]:
        return [{**row, column: value} if row["id"] == "A" else row for row in rows]

    change(parts(recorded, "outcomes")[0], other)
    check_found(recorded, {Kind.CHANGED, Kind.DATA})


def test_an_outcome_that_is_missing_is_found(recorded: Path) -> None:
    change(parts(recorded, "outcomes")[0], lambda rows: rows[1:])
    kinds = {Kind.NOT_TOLD, Kind.DATA, Kind.FILE}
    check_found(recorded, kinds)


def test_an_outcome_that_is_there_twice_is_found(recorded: Path) -> None:
    change(parts(recorded, "outcomes")[0], lambda rows: [*rows, rows[0]])
    kinds = {Kind.TOLD_TWICE, Kind.DATA, Kind.FILE}
    check_found(recorded, kinds)


def test_an_operation_that_is_missing_is_found(recorded: Path) -> None:
    change(parts(recorded, "operations")[0], lambda rows: rows[1:])
    check_found(recorded, {Kind.NEVER_SUBMITTED, Kind.FILE})


def test_an_operation_that_is_there_twice_is_found(recorded: Path) -> None:
    change(parts(recorded, "operations")[0], lambda rows: [*rows, rows[0]])
    check_found(recorded, {Kind.REJECTED, Kind.FILE})


def test_a_signal_that_is_missing_is_found(recorded: Path) -> None:
    change(parts(recorded, "signals")[0], lambda rows: rows[1:])
    kinds = {Kind.CHANGED, Kind.STILL_WAITING, Kind.FILE}
    verification = check_found(recorded, kinds)
    assert {each.name for each in verification.differences if each.told} == {"A", "D"}


def test_a_signal_that_is_there_twice_is_found_though_it_changes_nothing(recorded: Path) -> None:
    change(parts(recorded, "signals")[0], lambda rows: [*rows, rows[0]])
    verification = check_found(recorded, {Kind.FILE})
    assert "has 3 rows, and 2 were recorded" in verification.differences[0].name


def test_a_cancel_that_is_missing_is_found(recorded: Path) -> None:
    change(parts(recorded, "cancels")[0], lambda rows: [])
    verification = check_found(recorded, {Kind.CHANGED, Kind.FILE})
    assert verification.differences[-1].name == "C"


def test_an_outcome_too_early_for_its_operation_is_found(recorded: Path) -> None:
    def never(rows: list[Row]) -> list[Row]:
        return [{**row, "timeout_ms": 10**9} if row["id"] == "B" else row for row in rows]

    change(parts(recorded, "operations")[0], never)
    check_found(recorded, {Kind.STILL_WAITING})


def test_a_file_that_is_missing_damaged_or_a_stranger_is_found(recorded: Path) -> None:
    first, second = parts(recorded, "signals")
    shutil.copy(first, first.with_name("part-000000000002.parquet"))
    content = bytearray(second.read_bytes())
    content[30] ^= 0xFF
    second.write_bytes(content)
    parts(recorded, "forgotten")[0].unlink()
    with pytest.raises(BadFile, match="restore it from a copy"):
        verify(recorded)
    second.unlink()
    verification = verify(recorded)
    texts = [each.name for each in verification.differences if each.kind == Kind.FILE]
    assert len(texts) == 3
    assert any("none of the recorded files" in text for text in texts)
    assert sum("is gone" in text for text in texts) == 2


def test_only_so_many_differences_are_listed_and_all_are_counted(recorded: Path) -> None:
    change(parts(recorded, "outcomes")[0], lambda rows: [{**row, "at_ms": 1} for row in rows])
    verification = verify(recorded, show=2)
    assert len(verification.differences) == 2
    assert verification.counts == {Kind.CHANGED: 3, Kind.DATA: 3}


def test_another_file_s_history_is_refused(recorded: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other.db", ManualClock(START_MS)) as waits:
        waits.signal("k", 1)
    with pytest.raises(BadFile, match="is not the history of"):
        history.verify(tmp_path / "other.db", recorded / "history")


def test_a_folder_without_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile, match="holds no history"):
        history.verify(None, tmp_path)


# A history that is cut.


def test_of_a_cut_history_what_is_not_known_is_counted_and_no_difference(recorded: Path) -> None:
    remove_first_hour(recorded)
    verification = verify(recorded)
    assert verification.is_proven, verification.differences
    assert not verification.is_complete
    # D completes by what a and b had reached before.
    assert verification.unproven[Reason.DEPENDS] == 1
    assert verification.unproven[Reason.TOLD_BEFORE] == 3
    assert verification.proven == 1  # E: c moved to 8 for the first time since, so it was below
    assert verification.waiting == 1


def test_an_operation_submitted_before_the_first_hour_is_not_in_the_history(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        waits.submit("A", [("a", 1)], 10 * HOUR_MS)
        clock.advance(HOUR_MS)
        waits.signal("a", 1)
    remove_first_hour(tmp_path)
    verification = verify(tmp_path)
    assert verification.is_proven
    assert verification.unproven[Reason.BEFORE] == 1
    assert verification.proven == 0


def test_a_history_begun_late_is_a_cut_one(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with opened(
        tmp_path / "waits.db", clock, retention_ms=1_000, forget_keys_after_ms=None
    ) as waits:
        waits.signal("k", 3)
        waits.submit("A", [("k", 1)], 10)
        clock.advance(5_000)
        for n in range(5):  # retention removes A's outcome
            waits.signal("n", n)
        with history.Recorder(waits, tmp_path / "history"):
            waits.submit("B", [("k", 1)], 10)
            waits.submit("C", [("l", 1)], 10)
            waits.submit("D", [("k", 4)], 10)
            waits.signal("k", 4)
            clock.advance(100)
    verification = verify(tmp_path)
    assert verification.is_proven, verification.differences
    assert not verification.is_complete
    assert verification.unproven[Reason.DEPENDS] == 2  # B and C: l may have come to anything
    assert verification.proven == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_random_history_cut_anywhere_has_no_differences(seed: int, tmp_path: Path) -> None:
    world = World(seed + 50, tmp_path, hour_rate=0.03)
    world.run(300)
    world.close()
    count = len(list((world.folder / "operations").iterdir()))
    assert count > 4
    proven = [history.verify(world.data, world.folder).proven]
    for _ in range(count - 1):
        remove_first_hour(tmp_path)
        verification = history.verify(world.data, world.folder)
        assert verification.is_proven, verification.differences
        assert not verification.is_complete
        proven.append(verification.proven)
    assert proven == sorted(proven, reverse=True)
    assert proven[1] > 0


def test_a_hole_in_the_history_cuts_it_there(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    with (
        opened(tmp_path / "waits.db", clock) as waits,
        history.Recorder(waits, tmp_path / "history"),
    ):
        for n in range(3):
            waits.submit(f"op-{n}", [("a", 1)], 10)
            clock.advance(HOUR_MS)
    middle = sorted(each.name for each in (tmp_path / "history/operations").iterdir())[1]
    for each in (tmp_path / "history").glob(f"*/{middle}*"):
        if each.is_dir():
            shutil.rmtree(each)
    verification = verify(tmp_path)
    assert verification.is_proven
    assert (verification.hours, verification.removed_hours, verification.is_complete) == (
        1,
        2,
        False,
    )


# On the command line.


def test_the_command_says_what_was_proven(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["verify", str(recorded), "--history", str(recorded / "history")]
    assert cli.main([*arguments, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "5 outcomes are what the replay gives" in said
    assert "no differences (local" in said
    assert cli.main([*arguments, "--json", "--quiet"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["proven"], said["waiting"], said["differs"]) == (5, 1, {})


def test_the_command_lists_differences_and_exits_with_1(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(parts(recorded, "signals")[0], lambda rows: rows[1:])
    arguments = ["verify", str(recorded / "waits.db"), "--history", str(recorded / "history")]
    assert cli.main([*arguments, "--show", "2"]) == 1
    said = capsys.readouterr()
    assert "A: told otherwise; told completed at" in said.out
    assert "; replay expired at" in said.out
    assert "… and 1 more" in said.out
    assert "3 differences (local" in said.out
    assert "replaying" in said.err


def test_the_commands_on_the_page_are_commands() -> None:
    page = ROOT / "docs" / "history.md"
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line.startswith("sojourn ")]
    assert len(lines) >= 5
    for line in lines:
        parsed = entry._parser().parse_args(shlex.split(line, comments=True)[1:])
        assert callable(parsed.run)


def test_the_command_explains_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["verify", str(tmp_path / "no.db"), "--history", str(tmp_path)]) == 2
    assert "holds no history" in capsys.readouterr().err
