"""The answer, written as three folders: outcomes, pending and rejected; all of it or nothing.

    OUT/outcomes/…   OUT/pending/…   OUT/rejected/…
    OUT/_sojourn_files       the files that we have written, a line each
    OUT/_writing-…           what is being written; removed when it is done, or was stopped

Folders that exist are replaced only if the caller asks for it, and only if the list has all of
their files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sojourn.errors import BadFile
from sojourn.replay.stores import File

PARTS = ("outcomes", "pending", "rejected")
_LIST = "_sojourn_files"


def check_place(
    folder: str | os.PathLike[str], *, overwrite: bool = False, inputs: Iterable[File] = ()
) -> None:
    """Raise BadFile, before any work is done, if the answer may not be written to this folder."""
    folder = Path(folder)
    present = [folder / part for part in PARTS if (folder / part).exists()]
    if not present:
        return
    for file in inputs:
        above = [] if file.url else Path(file.path).resolve().parents
        if any(part.resolve() in above for part in present):
            raise BadFile(
                f"{file} is input, and is where the answer would be written; name another folder"
            )
    if not overwrite:
        raise BadFile(
            f"{present[0]} is there already; choose another folder, or overwrite it (--overwrite)"
        )
    ours = _listed(folder)
    for part in present:
        others = sorted(set(_files_below(folder, part)) - ours)
        if others:
            raise BadFile(
                f"{folder / others[0]} is not in {folder / _LIST}, the list of what an earlier run "
                "wrote, and is not overwritten; remove it, or name another folder"
            )


def write(resolution: Any, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write outcomes, pending and rejected as Parquet, a folder each in `folder`.

    They are written aside and moved in place when complete, so a reader sees all of a folder or
    nothing of it. Folders that are there already are an error; with `overwrite` they are replaced
    if an earlier run wrote everything in them.
    """
    with writing(folder, overwrite=overwrite) as aside:
        for part in PARTS:
            (aside / part).mkdir()
            pq.write_table(getattr(resolution, part), aside / part / "part-00000.parquet")


@contextmanager
def writing(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a folder to write the parts to; move them in place at the end, or remove them."""
    folder = Path(folder)
    check_place(folder, overwrite=overwrite)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix="_writing-", dir=folder))
    except OSError as error:
        raise BadFile(f"cannot write to {folder}: {error.strerror or error}") from None
    try:
        yield aside
        written = {file for part in PARTS for file in _files_below(aside, aside / part)}
        # Both lists first: whatever is there when we are stopped is ours.
        _write_list(folder, written | _listed(folder))
        for part in PARTS:
            if (folder / part).exists():
                (folder / part).rename(aside / f"old-{part}")
            (aside / part).rename(folder / part)
        _write_list(folder, written)
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"cannot write to {folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _files_below(folder: Path, part: Path) -> Iterator[str]:
    if not part.is_dir():
        yield part.relative_to(folder).as_posix()
    for file in part.rglob("*"):
        if not file.is_dir():
            yield file.relative_to(folder).as_posix()


def _listed(folder: Path) -> set[str]:
    try:
        return set((folder / _LIST).read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return set()


def _write_list(folder: Path, names: set[str]) -> None:
    unfinished = folder / f"{_LIST}.unfinished"
    unfinished.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    unfinished.replace(folder / _LIST)
