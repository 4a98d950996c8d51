"""Stores: list the files of a path, on this machine or behind a URL.

A path is a file, a folder, or a pattern with `*`, `?`, `[…]` and `**`; with a scheme it is a URL.
Arrow reads `s3://bucket/…` (`s3a://` is the same), `gs://`, `abfs://` and `hdfs://`; fsspec reads
others, if it is installed. In a URL `?` begins Arrow's own options, e.g. `?region=eu-west-1`. A
folder means all files below it, except those whose names begin with `_` or `.`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from sojourn.errors import BadFile, NoSuchFile

_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs"}
_WILD = re.compile(r"[*?\[]")


class File(NamedTuple):
    """A file, and what the names of its folders say: `day=2026-01-05` is a column `day`."""

    url: str  # of the store, "" for this machine
    path: str  # in the store
    size: int
    partition_values: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        return f"{urlsplit(self.url).scheme}://{self.path}" if self.url else self.path

    def open(self) -> pa.NativeFile:
        """Open it for reading anywhere in it."""
        return _system(self.url)[0].open_input_file(self.path)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Say whether a path has a scheme; C:/ is a drive."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", os.fspath(path)) is not None


def find(path: str | os.PathLike[str], name: str) -> list[File]:
    """Return the files that a path means, in order; `name` is the table they are for."""
    where = os.fspath(path)
    system, root = _place(where)
    try:
        url = where if is_url(where) else ""
        files = list(_files(system, url, root.rstrip("/") or root))
    except FileNotFoundError:
        files = []
    except OSError as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(f"{name}: cannot look into {where}: {error.strerror or error}") from None
    if not files:
        what = f"there is no {where}"
        if system.get_file_info(root).type == fs.FileType.Directory:
            what = f"the folder {where} has no data files in it"
        raise NoSuchFile(
            f"{name}: {what}; give a Parquet, CSV or JSON-lines file, a folder or a pattern"
        )
    return files


def file(path: str, size: int, partition_values: tuple[tuple[str, str | None], ...] = ()) -> File:
    """Return a file that is known to be there."""
    if not is_url(path):
        return File("", path, size, partition_values)
    return File(path, _system(path)[1], size, partition_values)


def is_folder(path: str, inner: str) -> bool:
    """Say whether there is a folder of this name in the path."""
    system, root = _place(path)
    info = system.get_file_info(f"{root}/{inner}")
    return bool(info.type == fs.FileType.Directory)


def names(path: str, inner: str, ending: str) -> list[str]:
    """Return the files in a folder in the path whose names end like that."""
    system, root = _place(path)
    below = fs.FileSelector(f"{root}/{inner}", allow_not_found=True)
    scheme = f"{urlsplit(path).scheme}://" if is_url(path) else ""
    paths = [info.path for info in system.get_file_info(below)] if is_folder(path, inner) else []
    return sorted(f"{scheme}{name}" for name in paths if name.endswith(ending))


def _place(path: str) -> tuple[Any, str]:
    """Return the file system that a path is in, and where in it."""
    if is_url(path):
        return _system(path)
    return _system("")[0], os.path.expanduser(path)


def _files(system: Any, url: str, root: str) -> Iterator[File]:
    info = system.get_file_info(root)
    if info.type == fs.FileType.File:
        yield File(url, root, info.size)
    elif info.type == fs.FileType.Directory:
        yield from _below(system, url, root)
    elif _WILD.search(root):
        parts = root.split("/")
        first = next(n for n, part in enumerate(parts) if _WILD.search(part))
        base = "/".join(parts[:first]) or ("/" if root.startswith("/") else ".")
        for place in dict.fromkeys(_matches(system, base, parts[first:])):
            for file in _files(system, url, place):
                folders = file.path[len(base) :].strip("/").split("/")[:-1]
                yield file._replace(partition_values=tuple(_partition_values(folders)))


def _matches(system: Any, base: str, parts: list[str]) -> Iterator[str]:
    """Yield what is below a folder and called like this, folder by folder."""
    first, *rest = parts
    if first == "**" and rest:  # no folder, or any number of them
        yield from _matches(system, base, rest)
    infos = system.get_file_info(fs.FileSelector(base, allow_not_found=True))
    for info in sorted(infos, key=lambda info: info.path):
        hidden = info.base_name.startswith(("_", ".")) and not first.startswith(("_", "."))
        if hidden or not fnmatchcase(info.base_name, first):
            continue
        if first == "**" and rest:
            if info.type == fs.FileType.Directory:
                yield from _matches(system, info.path, parts)
        elif not rest:
            yield info.path
        elif info.type == fs.FileType.Directory:
            yield from _matches(system, info.path, rest)


def _below(system: Any, url: str, root: str) -> Iterator[File]:
    infos = system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    for info in sorted(infos, key=lambda info: info.path.split("/")):
        parts = info.path[len(root) :].strip("/").split("/")
        if info.type == fs.FileType.File and not any(p.startswith(("_", ".")) for p in parts):
            yield File(url, info.path, info.size, tuple(_partition_values(parts[:-1])))


def _partition_values(folders: list[str]) -> Iterator[tuple[str, str | None]]:
    for folder in folders:
        column, equals, value = folder.partition("=")
        if equals:
            null = value == "__HIVE_DEFAULT_PARTITION__"
            yield unquote(column), None if null else unquote(value)


@lru_cache(maxsize=64)
def _system(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    if not url:
        return fs.LocalFileSystem(), ""
    scheme, _, rest = url.partition("://")
    address = f"{_SCHEMES.get(scheme.lower(), scheme.lower())}://{rest}"
    # Wildcards are no part of a URL: what begins with the first is added again. What is behind a
    # question mark is for the store.
    address, mark, options = address.partition("?")
    wild = _WILD.search(address)
    plain, behind = (address[: wild.start()], address[wild.start() :]) if wild else (address, "")
    plain += mark + options
    try:
        system, path = fs.FileSystem.from_uri(plain)
    except (pa.ArrowException, OSError, ImportError) as error:
        system, path = _through_fsspec(url, plain, error)
    inner = "/" if wild and address[: wild.start()].endswith("/") and path[-1:] != "/" else ""
    return system, path + inner + behind


def _through_fsspec(url: str, plain: str, error: Exception) -> tuple[Any, str]:
    reason = str(error).splitlines()[0].rstrip(". ")
    try:
        import fsspec
    except ImportError:
        raise BadFile(
            f"{url}: Arrow cannot reach it ({reason}); pip install fsspec, and the package that "
            "fsspec wants for this scheme"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(plain)
    except (ImportError, ValueError) as cause:
        raise BadFile(f"{url}: neither Arrow nor fsspec can reach it: {cause}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path
