"""A disk that remembers every write and sync, and what is left of them when the power is cut.

A VFS of apsw passes everything on to real files and keeps a record. Cut the power behind any entry
of it, and the disk has

    what was synced by then                 all of it
    what was written since the last sync    any of it, in any order, each whole, torn or not at all

Sectors of 512 bytes are written whole or not. A file's size changes in the same way as its bytes.
"""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

if TYPE_CHECKING:
    from pathlib import Path

SECTOR = 512
_names = itertools.count()


@dataclass
class Entry:
    """One thing that happened to a file."""

    kind: str  # write, truncate, sync, delete
    file: str
    offset: int = 0
    data: bytes = b""


@dataclass
class Disk:
    """The record of everything that was written to files of this VFS."""

    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = f"recorded-{next(_names)}"
        self._vfs = _Vfs(self)
        self._played = 0  # entries, up to which the next two are right
        self._synced: dict[str, bytearray] = {}
        self._unsynced: dict[str, list[Entry]] = {}

    def after_cut(self, at: int, rng: random.Random) -> dict[str, bytes]:
        """The files as they may be found when power went after `at` entries.

        Quickest if `at` only grows from call to call.
        """
        if at < self._played:
            self._played, self._synced, self._unsynced = 0, {}, {}
        for entry in self.entries[self._played : at]:
            if entry.kind == "sync":
                for pending in self._unsynced.pop(entry.file, []):
                    _carry_out(self._synced, pending)
                self._synced.setdefault(entry.file, bytearray())
            elif entry.kind == "delete":
                self._unsynced.pop(entry.file, None)
                self._synced.pop(entry.file, None)
            else:
                self._unsynced.setdefault(entry.file, []).append(entry)
        self._played = at
        files = {name: bytearray(content) for name, content in self._synced.items()}
        for pending_entries in self._unsynced.values():
            self._leave_some(files, pending_entries, rng)
        return {name: bytes(content) for name, content in files.items()}

    def _leave_some(
        self, files: dict[str, bytearray], entries: list[Entry], rng: random.Random
    ) -> None:
        mood = rng.random()
        if mood < 0.25:  # nothing of it
            return
        if mood < 0.5:  # the first ones, and a piece of the next
            entries = entries[: rng.randrange(len(entries) + 1)]
        else:
            share = rng.random()
            entries = [entry for entry in entries if rng.random() < share]
            rng.shuffle(entries)
        for n, entry in enumerate(entries):
            torn = rng.random() < (0.5 if n == len(entries) - 1 else 0.1)
            for piece in _torn(entry, rng) if torn else [entry]:
                _carry_out(files, piece)


def _carry_out(files: dict[str, bytearray], entry: Entry) -> None:
    content = files.setdefault(entry.file, bytearray())
    if entry.kind == "truncate":
        del content[entry.offset :]
        return
    end = entry.offset + len(entry.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    content[entry.offset : end] = entry.data


def _torn(entry: Entry, rng: random.Random) -> list[Entry]:
    """Some of the sectors of a write."""
    if entry.kind != "write":
        return []
    pieces = []
    at = 0
    while at < len(entry.data):
        upto = at + SECTOR - (entry.offset + at) % SECTOR
        if rng.random() < 0.5:
            pieces.append(Entry("write", entry.file, entry.offset + at, entry.data[at:upto]))
        at = upto
    return pieces


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._disk.entries.append(Entry("delete", os.path.basename(filename)))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._entries = disk.entries
        self._file = os.path.basename(path or "")
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._entries.append(Entry("write", self._file, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._entries.append(Entry("truncate", self._file, size))

    def xSync(self, flags: int) -> None:
        self._entries.append(Entry("sync", self._file))  # the real disk need not wait for it


class Connection:
    """One connection to a recorded file, used for writing and for reading."""

    def __init__(self, disk: Disk, path: str, *, synchronous: str = "FULL") -> None:
        self._synchronous = synchronous
        self._connection = apsw.Connection(path, vfs=disk.name)
        # Without shared memory, which this VFS does not have.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if statement == "PRAGMA synchronous = FULL":
            statement = f"PRAGMA synchronous = {self._synchronous}"
        return self._connection.execute(statement, parameters)

    def close(self) -> None:
        """The power goes before anybody closes."""


class HastyConnection(Connection):
    """Says that a transaction is committed, and commits it when the next one begins."""

    _owes = False

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if statement == "COMMIT":
            self._owes = True
            return None
        if statement == "BEGIN IMMEDIATE" and self._owes:
            self._owes = False
            super().execute("COMMIT")
        return super().execute(statement, parameters)


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    """Write the files into the folder, which has no others."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
