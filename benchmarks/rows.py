"""Operations as data: Parquet folders in, an outcome for each operation out.

As many signals as operations, two requirements each, any or both of them needed; keys uniform, or
one key with half of all rows. Timed, after one round to warm up: reading the files and finding the
outcomes, as an Arrow table in process, into a sink that drops them on Spark. Ours also checks every
row and looks for duplicate ids, the others do not. Peak memory is that of the process and of all it
started.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.contenders import rows as others

if TYPE_CHECKING:
    from benchmarks.case import Row


def measure(name: str, params: dict[str, Any]) -> Row:
    operations, signals = Path(params["trace"], "operations"), Path(params["trace"], "signals")
    answer = _ANSWERS[name](operations, signals)
    with Peak() as peak:
        answer()
        started = perf_counter()
        answer()
        spent_s = perf_counter() - started
    return {
        "seconds": spent_s,
        "rows_per_s": params["operations"] / spent_s,
        "peak_mb": peak.bytes / 1e6,
    }


def replayed(operations: Path, signals: Path) -> Callable[[], object]:
    from sojourn import replay
    from sojourn.replay import files

    def answer() -> object:
        read = [files.read(operations, "operations").table, files.read(signals, "signals").table]
        return replay.resolve(*read)

    return answer


def on_spark(operations: Path, signals: Path) -> Callable[[], object]:
    from sojourn import spark as sp

    spark = sp.local_session("local[2]", driver_memory="12g")

    def answer() -> None:
        found = sp.resolve(spark.read.parquet(str(operations)), spark.read.parquet(str(signals)))
        found.rows.write.format("noop").mode("overwrite").save()

    return answer


def by_window_sql(operations: Path, signals: Path) -> Callable[[], object]:
    from sojourn.spark import local_session

    spark = local_session("local[2]", driver_memory="12g")

    def answer() -> None:
        found = others.spark_window(spark, operations, signals)
        found.write.format("noop").mode("overwrite").save()

    return answer


def by_duckdb(operations: Path, signals: Path) -> Callable[[], object]:
    return lambda: others.duckdb_asof(operations, signals, threads=os.cpu_count() or 1)


def by_polars(operations: Path, signals: Path) -> Callable[[], object]:
    return lambda: others.polars_asof(operations, signals)


_ANSWERS = {
    "replay": replayed,
    "spark": on_spark,
    "window-sql": by_window_sql,
    "duckdb": by_duckdb,
    "polars": by_polars,
}


class Peak:
    """The most memory in use at once by this process and all it started, looked at in passing."""

    _EVERY_S = 0.1

    def __init__(self) -> None:
        self.bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        page = os.sysconf("SC_PAGE_SIZE")
        while not self._over.wait(self._EVERY_S):
            self.bytes = max(self.bytes, page * sum(map(_resident_pages, _family())))


def _family() -> set[int]:
    """This process, its children, theirs, and so on."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(entry.name)] = int(fields[1])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
