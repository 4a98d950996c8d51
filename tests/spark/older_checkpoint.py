"""A checkpoint as an older version left it: shards went by their numbers then, of 32 bits.

It was recorded half-way through a trace, by that version, the last before labels.py:

    PYTHONPATH=SRC_OF_THAT_VERSION:. python -m tests.spark.older_checkpoint

The archive holds the trace, what that version wrote, its checkpoint, and the rows that it has not
read. Files in a checkpoint name others by their whole paths, so these are put in when it is
unpacked.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.rows.traces import Trace, random_trace
from tests.spark.stream_traces import TIMES, arrivals

if TYPE_CHECKING:
    import pyarrow as pa

ARCHIVE = Path(__file__).with_name("older-checkpoint.tar.xz")
EXTRAS = "kind string, weight long"
DELAY_MS = 200
_HERE = b"/recorded/here"
_BATCHES, _BEFORE = 6, 3


def unpack(folder: Path) -> Trace:
    """Lay out `checkpoint`, `out` and the folders of rows to come; return the whole trace."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    _rename(folder / "checkpoint", _HERE, str(folder).encode())
    rows = json.loads((folder / "trace.json").read_text())
    return Trace("recorded", rows["operations"], rows["signals"], rows["cancels"])


def _rename(folder: Path, old: bytes, new: bytes) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and old in (text := path.read_bytes()):
            path.write_bytes(text.replace(old, new))


def _record(folder: Path) -> None:
    import sojourn.spark as sp

    trace = random_trace(1, 60, extremes=False, ties_by_arrival=False, until=False)
    text = json.dumps({name: getattr(trace, name) for name in TIMES})
    (folder / "trace.json").write_text(text)
    batches = arrivals(trace, _BATCHES, DELAY_MS - 10)
    for name in TIMES:
        (folder / name).mkdir()
    for number, batch in enumerate(batches[:_BEFORE]):
        _write(folder, number, batch)
    spark = sp.local_session("local[2]", shuffle_partitions=1)
    sp.stream_settings(spark)
    tables = [
        sp.read_files(
            spark,
            "json",
            str(folder / name),
            name,
            extras=EXTRAS if name == "operations" else "",
            files_per_batch=1,
        )
        for name in TIMES
    ]
    # Of every shard there are a snapshot, made by the second batch, and a log with the third.
    out = sp.resolve_stream(
        *tables,
        delay_ms=DELAY_MS,
        shards=4,
        idle="event",
        follow="slowest",
        snapshot_every=1,
    )
    query = out.write(str(folder / "out"), str(folder / "checkpoint"), trigger=None, format="json")
    query.awaitTermination()
    spark.stop()
    for name in TIMES:  # what is read is not needed any more
        for path in (folder / name).iterdir():
            path.unlink()
    for number, batch in enumerate(batches[_BEFORE:], _BEFORE):
        _write(folder, number, batch)
    for path in folder.rglob(".*.crc"):
        path.unlink()
    _rename(folder / "checkpoint", str(folder).encode(), _HERE)
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)


def _write(folder: Path, number: int, batch: dict[str, pa.Table]) -> None:
    for name, table in batch.items():
        lines = (json.dumps(row) + "\n" for row in table.to_pylist())
        (folder / name / f"{number:04}.json").write_text("".join(lines))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        _record(Path(folder))
