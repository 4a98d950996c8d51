"""docs/running-the-service.md is true: its commands, limits and metrics exist, its advice works."""

from __future__ import annotations

import contextlib
import re
import shlex
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sojourn import durable, history
from sojourn.cli import main
from sojourn.cli.entry import _parser
from sojourn.client import Client
from sojourn.durable import schema
from sojourn.durable.backup import backup
from sojourn.errors import BadFile, NotWritten, OutOfRange
from tests.checkout import ROOT
from tests.client.service import WAIT_S, ServiceThread

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (ROOT / "docs/running-the-service.md").read_text(encoding="utf-8")
HOUR_MS = 3_600_000


def commands(page: str) -> list[str]:
    """What the page's console blocks and units start with `sojourn`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|ini)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    parts = [part for line in "".join(blocks).splitlines() for part in line.split("|")]
    matches = (re.search(r"(?:^|/bin/|\s)sojourn (.+?)(?:  #.*)?$", part) for part in parts)
    return [command[1].strip() for command in matches if command]


@pytest.mark.parametrize(
    "command", commands("docs/running-the-service.md") + commands("docs/client.md")
)
def test_the_commands_of_the_page_are_understood(command: str) -> None:
    assert _parser().parse_args(shlex.split(command)).run is not None


# Metrics and alerts.


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceThread]:
    thread = ServiceThread(tmp_path / "data")
    yield thread
    thread.close()


def test_the_metrics_of_the_alerts_exist(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        waits_db = stack.enter_context(durable.Purgatory(tmp_path / "waits.db"))
        waits_db.keep_journal("history", 0)
        service = ServiceThread(tmp_path, waits_db)
        stack.callback(service.close)
        waits = stack.enter_context(Client(service.url))
        waits.signal("k", 1)
        waits.submit("a", [("k", 1)], HOUR_MS)
        waits.submit("b", [("l", 1)], 0)
        waits.get("b", wait_ms=HOUR_MS)
        waits.subscription("mail").commit(1)
        text = httpx.get(f"{service.url}/metrics", timeout=WAIT_S).text
    exported = set(re.findall(r"^(sojourn_\w+)", text, re.MULTILINE))
    declared = set(re.findall(r"^# TYPE (sojourn_\w+)", text, re.MULTILINE))
    named = set(re.findall(r"\bsojourn_\w+", PAGE))
    assert len(named) >= 8
    of_webhooks = {name for name in named if "webhook" in name}  # no samples before the first
    assert named - exported - of_webhooks == set()
    assert declared <= set(re.findall(r"sojourn_\w+", text))


def test_the_labels_of_the_alerts_exist(service: ServiceThread) -> None:
    with Client(service.url) as waits:
        waits.submit("b", [("l", 1)], 0)
        waits.get("b", wait_ms=HOUR_MS)
    text = httpx.get(f"{service.url}/metrics", timeout=WAIT_S).text
    for metric, label in re.findall(r"(sojourn_\w+)\{(\w+)=", PAGE):
        assert re.search(rf"^{metric}{{[^}}]*\b{label}=", text, re.MULTILINE), (metric, label)


# What to do when.


class FullDisk:
    """A connection whose commits fail while the disk is full."""

    is_full = False

    def connect(self, path: str) -> Any:
        connection = schema.connect(path)
        disk = self

        class Connection:
            def execute(self, statement: str, *args: Any) -> Any:
                if statement == "COMMIT" and disk.is_full:
                    raise sqlite3.OperationalError("database or disk is full")
                return connection.execute(statement, *args)

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        return Connection()


def test_a_full_disk_refuses_commands_and_goes_on_by_itself(tmp_path: Path) -> None:
    disk = FullDisk()
    with contextlib.ExitStack() as stack:
        waits_db = durable.Purgatory(tmp_path / "waits.db", connect=disk.connect)
        stack.callback(waits_db.close)
        service = ServiceThread(tmp_path, waits_db)
        stack.callback(service.close)
        waits = stack.enter_context(Client(service.url))
        waits.submit("a", [("k", 1)], HOUR_MS)
        disk.is_full = True
        with pytest.raises(NotWritten, match="disk is full"):
            waits.signal("k", 1)
        operation = waits.get("a")
        assert operation is not None
        assert operation.status == "waiting"
        disk.is_full = False
        waits.signal("k", 1)
        operation = waits.get("a")
        assert operation is not None
        assert operation.status == "completed"


def test_a_service_starts_on_a_backup_and_a_reader_ahead_of_it_is_told(
    service: ServiceThread, tmp_path: Path
) -> None:
    with Client(service.url) as waits:
        waits.signal("k", 1)
        waits.submit("a", [("k", 1)], HOUR_MS)
        waits.submit("b", [("l", 1)], HOUR_MS)
        assert main(["backup", str(tmp_path / "data"), str(tmp_path / "copy")]) == 0
        waits.signal("l", 1)
        following = waits.follow()
        position = max(next(following).number or 0 for _ in range(2))
        assert position == 2
    restored = ServiceThread(tmp_path / "copy")
    try:
        with Client(restored.url) as waits:
            b = waits.get("b")
            assert b is not None
            assert b.status == "waiting"
            with pytest.raises(OutOfRange, match="after is 2, and the last outcome of"):
                next(waits.follow(after=position))
            waits.signal("l", 1)
            assert next(waits.follow(after=1)).id == "b"
    finally:
        restored.close()


def test_a_history_that_is_ahead_of_a_restored_backup_is_refused(tmp_path: Path) -> None:
    data, copy = tmp_path / "waits.db", tmp_path / "copy.db"
    with durable.Purgatory(data) as waits, history.Recorder(waits, tmp_path / "history"):
        waits.submit("a", [("k", 1)], HOUR_MS)
        backup(data, copy)
        waits.submit("b", [("k", 1)], HOUR_MS)
    with durable.Purgatory(copy) as waits:
        waits.submit("c", [("k", 1)], HOUR_MS)
        with pytest.raises(BadFile):
            history.Recorder(waits, tmp_path / "history").start()
        with history.Recorder(waits, tmp_path / "new"):
            waits.submit("d", [("k", 1)], HOUR_MS)


def test_a_damaged_or_newer_or_busy_folder_is_refused_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(folder: Path) -> str:
        assert main(["serve", str(folder), "--port", "0", "--quiet"]) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        return message

    for name in ("damaged", "newer", "busy"):
        with durable.Purgatory(_folder(tmp_path / name) / "waits.db") as waits:
            waits.submit_many([(f"o{n}", [("k", 1)], HOUR_MS) for n in range(200)])
    with contextlib.closing(sqlite3.connect(tmp_path / "damaged/waits.db")) as connection:
        connection.execute("UPDATE journal SET body = zeroblob(length(body))")
        connection.commit()
    assert "is damaged" in refused(tmp_path / "damaged")
    with contextlib.closing(sqlite3.connect(tmp_path / "newer/waits.db")) as connection:
        connection.execute(f"PRAGMA user_version = {schema.FORMAT + 1}")
    assert "has format" in refused(tmp_path / "newer")
    with durable.Purgatory(tmp_path / "busy/waits.db"):
        assert "is open in process" in refused(tmp_path / "busy")


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
