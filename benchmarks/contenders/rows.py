"""The question of operations as data, answered by others: window SQL on Spark, DuckDB, polars.

All take the same Parquet folders and give the same outcomes (id, status, at_ms, by_key,
waited_ms, condition_ms). They know no cancels, check no rows and look for no duplicates: that is
left out in their favour.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A requirement holds from the earliest signal of its key with an offset at least its own. Sorted
# by key and falling offset that is the running minimum of the signals' times.
_SPARK_WINDOW = """
with requirements as (
    select id, submitted_ms, timeout_ms, coalesce(needed, size(requires)) as needed,
           inline(requires)
    from {operations}
), lines as (
    select key, offset, null as at_ms, id, submitted_ms, timeout_ms, needed from requirements
    union all
    select key, offset, at_ms, null, null, null, null from {signals}
), held as (
    select id, submitted_ms, timeout_ms, needed, key,
           min(at_ms) over (
               partition by key order by offset desc
               range between unbounded preceding and current row
           ) as at_ms
    from lines
), nth as (
    select id, first(submitted_ms) as submitted_ms, first(timeout_ms) as timeout_ms,
           first(needed) as needed,
           array_sort(
               collect_list(struct(greatest(at_ms, submitted_ms) as moment, key))
               filter (where at_ms is not null)
           ) as held
    from held where id is not null group by id
), ends as (
    select id, submitted_ms, timeout_ms,
           get(filter(held, h -> h.moment = try_element_at(held, needed).moment), 0) as condition
    from nth
), judged as (
    select *, coalesce(condition.moment <= submitted_ms + timeout_ms, false) as in_time from ends
)
select id,
       if(in_time, 'completed', 'expired') as status,
       if(in_time, condition.moment, submitted_ms + timeout_ms) as at_ms,
       if(in_time, condition.key, null) as by_key,
       if(in_time, condition.moment - submitted_ms, timeout_ms) as waited_ms,
       condition.moment as condition_ms
from judged
"""

_DUCKDB_ASOF = """
with requirements as (
    select id, submitted_ms, timeout_ms, coalesce(needed, len(requires)) as needed,
           unnest(requires, recursive := true)
    from read_parquet('{operations}/*.parquet')
), frontier as (
    select key, "offset",
           min(at_ms) over (
               partition by key order by "offset" desc
               range between unbounded preceding and current row
           ) as at_ms
    from read_parquet('{signals}/*.parquet')
), held as (
    select r.id, r.submitted_ms, r.timeout_ms, r.needed, r.key,
           case when f.at_ms is not null then greatest(f.at_ms, r.submitted_ms) end as moment
    from requirements r asof left join frontier f
      on r.key = f.key and f."offset" >= r."offset"
), nth as (
    select id, any_value(submitted_ms) as submitted_ms, any_value(timeout_ms) as timeout_ms,
           any_value(needed) as needed,
           list_sort(
               list({{'moment': moment, 'key': key}}) filter (where moment is not null)
           ) as held
    from held group by id
), ends as (
    select id, submitted_ms, timeout_ms,
           list_filter(held, lambda h: h.moment = held[needed].moment)[1] as condition
    from nth
), judged as (
    select *, coalesce(condition.moment <= submitted_ms + timeout_ms, false) as in_time from ends
)
select id,
       case when in_time then 'completed' else 'expired' end as status,
       case when in_time then condition.moment else submitted_ms + timeout_ms end as at_ms,
       case when in_time then condition.key end as by_key,
       case when in_time then condition.moment - submitted_ms else timeout_ms end as waited_ms,
       condition.moment as condition_ms
from judged
"""


def spark_window(spark: SparkSession, operations: Path, signals: Path) -> DataFrame:
    """Union requirements and signals, and let a window over each key find the moments."""
    return spark.sql(
        _SPARK_WINDOW.format(operations=f"parquet.`{operations}`", signals=f"parquet.`{signals}`")
    )


def duckdb_asof(operations: Path, signals: Path, *, threads: int) -> pa.Table:
    """Join each requirement to the first signal at or above its offset, in one process."""
    import duckdb

    with duckdb.connect(config={"threads": threads}) as connection:
        result: Any = connection.sql(_DUCKDB_ASOF.format(operations=operations, signals=signals))
        table: pa.Table = result.to_arrow_table()
        return table


def polars_asof(operations: Path, signals: Path) -> Any:
    """The same by polars' join_asof."""
    import polars as pl

    frontier = (
        pl.scan_parquet(signals / "*.parquet")
        .group_by("key", "offset")
        .agg(pl.col("at_ms").min())
        .sort("key", "offset", descending=[False, True])
        .with_columns(pl.col("at_ms").cum_min().over("key"))
        .sort("offset")
    )
    lines = pl.scan_parquet(operations / "*.parquet").with_columns(
        pl.col("needed").fill_null(pl.col("requires").list.len())
    )
    held = (
        lines.explode("requires")
        .unnest("requires")
        .sort("offset")
        .join_asof(frontier, on="offset", by="key", strategy="forward", check_sortedness=False)
        .with_columns(moment=pl.max_horizontal("at_ms", "submitted_ms"))
        .with_columns(moment=pl.when(pl.col("at_ms").is_not_null()).then("moment"))
    )
    first = [pl.col(name).first() for name in ("submitted_ms", "timeout_ms", "needed")]
    nth = held.group_by("id").agg(*first, pl.col("moment"), pl.col("key"))
    condition_ms = (
        pl.col("moment")
        .list.drop_nulls()
        .list.sort()
        .list.get(pl.col("needed").cast(pl.Int64) - 1, null_on_oob=True)
    )
    ends = nth.with_columns(condition_ms=condition_ms).explode("moment", "key")
    by_key = pl.col("key").filter(pl.col("moment") == pl.col("condition_ms")).min()
    first = [pl.col(name).first() for name in ("submitted_ms", "timeout_ms", "condition_ms")]
    deadline_ms = pl.col("submitted_ms") + pl.col("timeout_ms")
    in_time = (pl.col("condition_ms") <= deadline_ms).fill_null(False)
    at_ms = pl.when(in_time).then("condition_ms").otherwise(deadline_ms)
    return (
        ends.group_by("id")
        .agg(*first, by_key=by_key)
        .select(
            "id",
            pl.when(in_time).then(pl.lit("completed")).otherwise(pl.lit("expired")).alias("status"),
            at_ms.alias("at_ms"),
            pl.when(in_time).then("by_key").alias("by_key"),
            (at_ms - pl.col("submitted_ms")).alias("waited_ms"),
            "condition_ms",
        )
        .collect()
    )


def write_trace(
    folder: Path,
    operations: int,
    *,
    keys: int = 100_000,
    hot_share: float = 0.0,
    files: int = 4,
    seed: int = 1,
) -> tuple[Path, Path]:
    """Write as many signals as operations, which wait for two keys each; return both folders.

    With `hot_share` that share of the requirements and of the signals is on one key.
    """
    random = np.random.default_rng(seed)
    span_ms = 86_400_000
    names = pa.array([f"key-{n:06}" for n in range(keys)])

    def draw(count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.where(random.random(count) < hot_share, 0, random.integers(0, keys, count))

    # A key's offsets count its signals, so they grow with time, but for some that come late.
    signal_keys = draw(operations)
    at_ms = np.sort(random.integers(0, span_ms, operations))
    order = np.argsort(signal_keys, kind="stable")
    counts = np.bincount(signal_keys, minlength=keys)
    offsets = np.empty(operations, dtype=np.int64)
    offsets[order] = np.arange(operations) - np.repeat(np.cumsum(counts) - counts, counts)
    at_ms += np.where(random.random(operations) < 0.1, random.integers(0, 60_000, operations), 0)
    signals = pa.table(
        {"key": names.take(pa.array(signal_keys)), "offset": offsets, "at_ms": at_ms}
    )

    submitted_ms = np.sort(random.integers(0, span_ms, operations))
    wanted = draw(2 * operations)
    share = np.repeat(submitted_ms / span_ms, 2) + random.normal(0, 0.02, 2 * operations)
    wanted_offsets = np.maximum(0, (share * counts[wanted])).astype(np.int64)
    requires = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * operations + 1, 2, dtype=np.int32)),
        pa.StructArray.from_arrays(
            [names.take(pa.array(wanted)), pa.array(wanted_offsets)], ["key", "offset"]
        ),
    )
    needed = random.integers(1, 3, operations).astype(np.int32)
    table = pa.table(
        {
            "id": [f"operation-{n:09}" for n in random.permutation(operations)],
            "submitted_ms": submitted_ms,
            "timeout_ms": random.integers(0, 3_600_000, operations),
            "requires": requires,
            "needed": pa.array(needed, mask=needed == 2),
        }
    )
    return (
        _write(table, folder / "operations", files),
        _write(signals, folder / "signals", files),
    )


def _write(table: pa.Table, folder: Path, files: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(table) // files)
    for n in range(files):
        pq.write_table(table.slice(n * size, size), folder / f"part-{n}.parquet")
    return folder
