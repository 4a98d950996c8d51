"""Operations as data: Parquet folders in, an outcome for each operation out.

As many signals as operations, two requirements each, any or both of them needed; keys uniform, or
one key with half of all rows. Timed, after one round to warm up: reading the files and finding the
outcomes, as an Arrow table in process, into a sink that drops them on Spark. Ours also checks every
row and looks for duplicate ids, the others do not. Peak memory and processor time are those of the
process and of all it started; of Spark's processor time a part is the JVM's compiler, which goes on
in the second round.

The floor is what Spark itself takes on this way: both inputs are read and go to Python, as Arrow,
and as many rows as there are operations come back, with the columns of outcomes, all the same.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from benchmarks.contenders import rows as others

if TYPE_CHECKING:
    from benchmarks.case import Row


def measure(name: str, params: dict[str, Any]) -> Row:
    operations, signals = Path(params["trace"], "operations"), Path(params["trace"], "signals")
    answer = _ANSWERS[name](operations, signals)
    with Peak() as peak:
        answer()
        started, started_cpu_s = perf_counter(), family_cpu_s()
        answer()
        spent_s, cpu_s = perf_counter() - started, family_cpu_s() - started_cpu_s
    return {
        "seconds": spent_s,
        "cpu_s": cpu_s,
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


def on_spark(operations: Path, signals: Path, strategy: str = "auto") -> Callable[[], object]:
    from sojourn import spark as sp

    spark = sp.local_session("local[2]", driver_memory="12g")

    def answer() -> None:
        asked, heard = (spark.read.parquet(str(folder)) for folder in (operations, signals))
        found = sp.resolve(asked, heard, strategy=strategy)
        found.rows.write.format("noop").mode("overwrite").save()

    return answer


def directly(operations: Path, signals: Path) -> Callable[[], object]:
    """As the command line does it: the workers read the files, and write the outcomes."""
    from sojourn.spark import direct, local_session, tables

    spark = local_session("local[2]", driver_memory="12g")

    def answer() -> None:
        found = {
            name: tables.open_table(spark, folder, name)
            for name, folder in (("operations", operations), ("signals", signals))
        }
        with tempfile.TemporaryDirectory() as out:
            if not direct.resolve_files(found, None, Path(out)):
                raise RuntimeError("the signals are too many for a broadcast")

    return answer


def by_floor(operations: Path, signals: Path) -> Callable[[], object]:
    """Both inputs to Python and as many rows back as there are operations."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from sojourn.spark import local_session
    from sojourn.spark.answers import spark_schema

    spark = local_session("local[2]", driver_memory="12g")
    output = spark_schema([], may_wait=False)
    columns = to_arrow_schema(output)
    constants = [1 if str(field.type) == "int64" else "a text" for field in columns]

    def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch(
                [pa.repeat(value, len(batch)) for value in constants], schema=columns
            )

    def nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from ()

    def answer() -> None:
        asked, heard = (spark.read.parquet(str(folder)) for folder in (operations, signals))
        found = asked.mapInArrow(same, output).union(heard.mapInArrow(nothing, output))
        found.write.format("noop").mode("overwrite").save()

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


_ANSWERS: dict[str, Callable[[Path, Path], Callable[[], object]]] = {
    "replay": replayed,
    "spark": on_spark,
    "spark-direct": directly,
    "spark-shuffle": partial(on_spark, strategy="shuffle"),
    "spark-floor": by_floor,
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
            self.bytes = max(self.bytes, page * sum(map(_resident_pages, family())))


def family() -> set[int]:
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


def family_cpu_s() -> float:
    """Processor time of this process and all it started, also of what has ended meanwhile."""
    ticks = 0
    for pid in family():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))  # its own and its children's, in user and system
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
