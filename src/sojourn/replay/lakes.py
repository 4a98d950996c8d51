"""Lakes: Delta and Iceberg tables, whose files are listed in a log.

The folder of such a table also holds files that no longer belong to it. `deltalake` or `pyiceberg`
lists those that do. They are Parquet, and are read like any others. A table whose files alone do
not tell its rows (deleted rows kept apart, renamed columns) is refused: read it with Spark and its
own connector.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from sojourn.errors import BadFile, NoSuchFile
from sojourn.replay import stores
from sojourn.replay.stores import File


def find(path: str | os.PathLike[str], name: str) -> list[File]:
    """Return the files that a path means; of a table those that are part of it now."""
    where = os.fspath(path).rstrip("/")
    if stores.is_folder(where, "_delta_log"):
        files = _delta(where, name)
    elif versions := stores.names(where, "metadata", ".metadata.json"):
        files = _iceberg(where, max(versions, key=_number), name)
    else:
        return stores.find(path, name)
    if not files:
        raise NoSuchFile(f"{name}: the table {where} has no rows")
    return sorted(files, key=lambda file: file.path)


def _delta(where: str, name: str) -> list[File]:
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise _not_installed(where, name, "a Delta table", "deltalake") from None
    import pyarrow as pa

    table = DeltaTable(where)
    protocol = table.protocol()
    features = set(protocol.reader_features or ()) - {"timestampNtz", "vacuumProtocolCheck"}
    if protocol.min_reader_version == 2 or features:
        what = ", ".join(sorted(features)) or "columnMapping"
        raise _too_clever(where, name, f"a Delta table with {what}")
    files = []
    for action in pa.table(table.get_add_actions(flatten=False)).to_pylist():
        values = (action.get("partition") or {}).items()
        texts = tuple((column, None if value is None else str(value)) for column, value in values)
        place = unquote(action["path"])
        whole = place if stores.is_url(place) else f"{where}/{place}"
        files.append(stores.file(whole, action["size_bytes"], texts))
    return files


def _iceberg(where: str, version: str, name: str) -> list[File]:
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise _not_installed(where, name, "an Iceberg table", "pyiceberg") from None
    table: Any = StaticTable.from_metadata(version)
    if len(table.schemas()) > 1:
        raise _too_clever(where, name, "an Iceberg table whose columns have changed")
    files = []
    for task in table.scan().plan_files():
        if task.delete_files:
            raise _too_clever(where, name, "an Iceberg table with deleted rows kept apart")
        place = task.file.file_path
        if place.startswith("file:"):
            place = unquote(urlsplit(place).path)
        files.append(stores.file(place, task.file.file_size_in_bytes))
    return files


def _number(version: str) -> int:
    """Of `00002-….metadata.json` and `v2.metadata.json` alike."""
    match = re.match(r"v?(\d+)", version.rpartition("/")[2])
    return int(match[1]) if match else -1


def _not_installed(where: str, name: str, what: str, package: str) -> BadFile:
    return BadFile(
        f"{name}: {where} is {what}, and {package}, which lists the files that belong to it, is "
        f"not installed; pip install {package}, or sojourn[lakes]"
    )


def _too_clever(where: str, name: str, what: str) -> BadFile:
    return BadFile(
        f"{name}: {where} is {what}, and cannot be read from its files alone; "
        "read it with Spark and its own connector, and give the DataFrame to sojourn.spark.resolve"
    )
