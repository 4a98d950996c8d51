"""Backup: a copy of a durable purgatory's file, also while a process has it open and writes.

Copying the file with `cp` is not enough: what was committed last is in the log beside it, and a
page may change while it is read. SQLite's own backup reads all pages as of one moment, which a
write-ahead log allows without holding up the writer; the log only grows meanwhile.

    read the pages as of now   -->  TARGET.partial
    check the copy's structure
    sync it, rename it         -->  TARGET

So TARGET is whole or not there. It needs no `-wal` beside it, and is opened like any other file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sojourn.durable.disk import sync
from sojourn.durable.schema import APPLICATION, check_version
from sojourn.errors import BadFile, NoSuchFile, OutOfRange


def backup(
    path: str | os.PathLike[str], target: str | os.PathLike[str], *, compact: bool = False
) -> int:
    """Copy the file to `target`, which must not exist; return how many bytes it has.

    With `compact` the copy has no free pages, which takes longer.
    """
    source_path, target_path = Path(path), Path(target)
    if not source_path.is_file():
        raise NoSuchFile(f"there is no file {source_path}")
    if target_path.exists():
        raise OutOfRange(f"{target_path} exists already; give a name that is free")
    partial = target_path.with_name(f"{target_path.name}.partial")
    try:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()
        with _connected(source_path, "ro") as source:
            _check_kind(source, source_path)
            if compact:
                source.execute("VACUUM INTO ?", (str(partial),))
            with _connected(partial, "rwc") as copy:
                if not compact:
                    source.backup(copy)  # in one step, so as of one moment
                # The copy is opened with a log again; until then it is one file.
                copy.execute("PRAGMA journal_mode = DELETE")
                _check_structure(copy, source_path)
        sync(partial)
        size = partial.stat().st_size
        partial.rename(target_path)
        sync(target_path.parent)
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{source_path} was not copied to {target_path}: {error}") from error
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.unlink(f"{partial}{suffix}")
    return size


@contextlib.contextmanager
def _connected(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(uri, timeout=10, isolation_level=None, uri=True)
    try:
        yield connection
    finally:
        connection.close()


def _check_kind(source: sqlite3.Connection, path: Path) -> None:
    (application,) = source.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise BadFile(f"{path} is not a file of a durable purgatory")
    check_version(source, str(path))


def _check_structure(copy: sqlite3.Connection, path: Path) -> None:
    (message,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if message != "ok":
        raise BadFile(f"{path} is damaged, and its copy was not kept: {message}")
