"""A backup is taken while the file is in use, is whole, and starts."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock
from sojourn.cli import main
from sojourn.durable import Purgatory
from sojourn.durable.backup import backup
from sojourn.durable.schema import FORMAT
from sojourn.errors import BadFile, NoSuchFile, OutOfRange

if TYPE_CHECKING:
    from pathlib import Path

WAIT_S = 60.0
HOUR_MS = 3_600_000


def test_a_backup_has_everything_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    enough, stop = threading.Event(), threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            waits.submit(f"o{n}", [("k", n)], HOUR_MS)
            acknowledged.append(n)
            if n == 20:
                enough.set()

    with Purgatory(tmp_path / "waits.db") as waits:
        waits.signal("done", 7)
        waits.subscription("mail").commit()
        thread = threading.Thread(target=write)
        thread.start()
        assert enough.wait(WAIT_S)
        before = acknowledged[-1]
        # A process of its own would do this; SQLite does not mind that it is ours.
        size = backup(tmp_path / "waits.db", tmp_path / "copy.db")
        stop.set()
        thread.join(WAIT_S)
    assert size == (tmp_path / "copy.db").stat().st_size
    with Purgatory(tmp_path / "copy.db") as copy:
        assert before <= len(copy) <= acknowledged[-1]
        assert copy.get(f"o{before}") is not None
        assert copy.progress("done") == 7
        assert copy.subscriptions() == {"mail": 0}
        copy.signal("k", 10**9)
        assert len(copy) == 0


def test_the_outcomes_of_a_copy_go_on_where_they_were(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    with Purgatory(tmp_path / "waits.db", clock=clock) as waits:
        waits.submit("a", [("k", 1)], 10)
        waits.submit("b", [("k", 1)], 50)
        clock.advance(20)
        backup(tmp_path / "waits.db", tmp_path / "copy.db")
    clock.advance(100)
    with Purgatory(tmp_path / "copy.db", clock=clock) as copy:
        outcomes = [(each.number, each.id, each.waited_ms) for each in copy.outcomes()]
    assert outcomes == [(1, "a", 10), (2, "b", 50)]


def test_a_compact_backup_is_smaller_and_has_the_same(tmp_path: Path) -> None:
    clock = ManualClock(1_700_000_000_000)
    with Purgatory(tmp_path / "waits.db", clock=clock, retention_ms=0) as waits:
        waits.signal("k", 1)
        waits.submit_many([(f"o{n}", [("k", 1)], 10, None, "", "x" * 1_000) for n in range(2_000)])
        waits.submit("a", [("l", 1)], HOUR_MS)
        for n in range(2, 6):  # batches, with which what is too old is removed
            clock.advance(10)
            waits.signal("k", n)
        full = backup(tmp_path / "waits.db", tmp_path / "full.db")
        compact = backup(tmp_path / "waits.db", tmp_path / "compact.db", compact=True)
    assert compact < full
    for name in ("full.db", "compact.db"):
        with Purgatory(tmp_path / name, clock=clock) as copy:
            assert (len(copy), copy.progress("k"), copy.last_outcome) == (1, 5, 2_000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child")
def test_a_backup_after_a_crash_has_what_is_in_the_log(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            waits = Purgatory(tmp_path / "waits.db")
            waits.submit("a", [("k", 1)], HOUR_MS)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert (tmp_path / "waits.db-wal").stat().st_size > 0
    backup(tmp_path / "waits.db", tmp_path / "copy.db")
    for name in ("copy.db", "waits.db"):
        with Purgatory(tmp_path / name) as waits:
            assert len(waits) == 1


def test_what_is_there_already_is_not_overwritten(tmp_path: Path) -> None:
    with Purgatory(tmp_path / "waits.db"):
        (tmp_path / "copy.db").write_text("precious")
        with pytest.raises(OutOfRange, match="exists already"):
            backup(tmp_path / "waits.db", tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_what_is_no_purgatory_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFile):
        backup(tmp_path / "waits.db", tmp_path / "copy.db")
    (tmp_path / "text.db").write_text("text " * 1000)
    with pytest.raises(BadFile, match="not a database"):
        backup(tmp_path / "text.db", tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(BadFile, match="not a file of a durable purgatory"):
        backup(tmp_path / "other.db", tmp_path / "copy.db")
    Purgatory(tmp_path / "waits.db").close()
    with closing(sqlite3.connect(tmp_path / "waits.db")) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(BadFile, match="use the newer sojourn"):
        backup(tmp_path / "waits.db", tmp_path / "copy.db")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("copy")]


def test_a_damaged_file_gives_no_backup(tmp_path: Path) -> None:
    path = tmp_path / "waits.db"
    with Purgatory(path) as waits:
        waits.submit_many([(f"o{n}", [(f"k{n}", 1)], 0, None, "", "x" * 50) for n in range(500)])
    data = bytearray(path.read_bytes())
    for at in range(8 * 4096, 12 * 4096):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(BadFile):
        backup(path, tmp_path / "copy.db")
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("copy")]


def test_a_copy_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    Purgatory(tmp_path / "waits.db").close()
    with pytest.raises(BadFile, match="was not copied"):
        backup(tmp_path / "waits.db", tmp_path / "nowhere" / "copy.db")


# `sojourn backup`.


def test_the_command_copies_the_folder_of_a_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "webhooks.json").write_text('{"mail": {}}')
    (data / "webhooks.json").chmod(0o600)
    with Purgatory(data / "waits.db") as waits:
        waits.submit("a", [("k", 1)], HOUR_MS)
        assert main(["backup", str(data), str(tmp_path / "copies" / "monday")]) == 0
        assert "monday: " in capsys.readouterr().out
    copy = tmp_path / "copies" / "monday"
    assert sorted(path.name for path in copy.iterdir()) == ["waits.db", "webhooks.json"]
    assert (copy / "webhooks.json").read_text() == '{"mail": {}}'
    assert (copy / "webhooks.json").stat().st_mode & 0o077 == 0
    with Purgatory(copy / "waits.db") as again:
        assert len(again) == 1
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["monday"]


def test_the_command_copies_the_file_of_an_embedded_purgatory(tmp_path: Path) -> None:
    with Purgatory(tmp_path / "waits.db"):
        assert main(["backup", str(tmp_path / "waits.db"), str(tmp_path / "copy.db")]) == 0
    Purgatory(tmp_path / "copy.db").close()


def test_the_command_says_why_not_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", str(tmp_path), str(tmp_path / "copy")]) == 2
    assert main(["backup", str(tmp_path / "none"), str(tmp_path / "copy")]) == 2
    (tmp_path / "waits.db").write_text("")
    (tmp_path / "copy").mkdir()
    assert main(["backup", str(tmp_path), str(tmp_path / "copy")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "has no waits.db" in lines[0]
    assert "there is no file" in lines[1]
    assert "exists already" in lines[2]
