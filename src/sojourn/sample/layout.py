"""A trace on disk: three folders of files, cut where time was when the rows arrived.

The n-th files of the three folders hold what arrived in the same stretch of time, so a stream that
takes one file of each after the other sees what a live one would have seen. Their modification
times go up by a second from file to file, since that is the order in which Spark takes them.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from sojourn.errors import OutOfRange
from sojourn.sample.trace import Trace

FORMATS = ("parquet", "json")


def write(trace: Trace, folder: str | Path, *, format: str = "parquet", files: int = 16) -> None:
    """Write OUT/operations, OUT/signals and OUT/cancels, each in `files` files.

    Raises FileExistsError, with nothing written, if one of the three is there and not empty.
    """
    if format not in FORMATS:
        raise OutOfRange(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if files < 1:
        raise OutOfRange(f"files must be an integer ≥ 1, got {files!r}")
    tables = {
        "operations": (trace.operations, trace.operations_arrived_ms),
        "signals": (trace.signals, trace.signals_arrived_ms),
        "cancels": (trace.cancels, trace.cancels_arrived_ms),
    }
    for name in tables:
        if (Path(folder) / name).exists() and any((Path(folder) / name).iterdir()):
            raise FileExistsError(
                f"{Path(folder) / name} holds files already; name another folder or remove it"
            )
    arrived = np.sort(np.concatenate([times for _, times in tables.values()]))
    ends = arrived[(np.arange(1, files) * len(arrived)) // files]
    began_s = time.time() - files
    for name, (table, times) in tables.items():
        cuts = [0, *np.searchsorted(times, ends, side="right").tolist(), len(table)]
        (Path(folder) / name).mkdir(parents=True, exist_ok=True)
        for number in range(files):
            path = Path(folder) / name / f"part-{number:05d}.{format}"
            piece = table.slice(cuts[number], cuts[number + 1] - cuts[number])
            if format == "parquet":
                pq.write_table(piece, path, compression="zstd")
            else:
                _write_json_lines(piece, path)
            os.utime(path, (began_s + number, began_s + number))


def _write_json_lines(table: Any, path: Path) -> None:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    with path.open("w", encoding="utf-8") as lines:
        for batch in table.to_batches(max_chunksize=16_384):
            lines.writelines(encode(row) + "\n" for row in batch.to_pylist())
