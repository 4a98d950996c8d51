"""One answer: for the same rows every engine says the same as the oracle.

To add an engine, write a function from a `Trace` to an `Answer`, put it into `ENGINES`, and the
traces that it is to be tried on into `traces`. `answer_of_tables` makes an `Answer` of Arrow
tables. Each engine is tried on at least 100,000 operations, interpreted on a tenth of that.
"""

from __future__ import annotations

import gc
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sojourn
from sojourn import replay
from tests.rows import arrivals as rows_arrivals
from tests.rows import live, progress
from tests.rows import oracle as rows_oracle
from tests.rows.oracle import Answer, Row
from tests.rows.traces import Trace, random_trace
from tests.spark import fixtures
from tests.spark.stream_traces import arrivals, write_arrivals


@dataclass(frozen=True)
class Traces:
    """Which traces an engine is tried on: seeds, and the arguments of `random_trace`."""

    seeds: range
    operations: int = 300
    span_ms: int = 1000
    extremes: bool = True
    ties_by_arrival: bool = True
    until: bool | None = None

    def each(self) -> list[tuple[Trace, Answer]]:
        return [_trace_and_answer(self, seed) for seed in self.seeds]


@dataclass(frozen=True)
class Engine:
    """Something that resolves rows."""

    name: str
    resolve: Callable[[Trace], Answer]
    tells_condition: bool = True  # whether its outcomes have condition_ms


@cache  # several engines are tried on the same traces
def _trace_and_answer(traces: Traces, seed: int) -> tuple[Trace, Answer]:
    trace = random_trace(
        seed,
        traces.operations,
        span_ms=traces.span_ms,
        extremes=traces.extremes,
        ties_by_arrival=traces.ties_by_arrival,
        until=traces.until,
    )
    rows = trace.operations, trace.signals, trace.cancels, trace.until_ms
    return trace, rows_oracle.resolve(*rows)


def answer_of_tables(outcomes: pa.Table, pending: pa.Table, rejected: pa.Table) -> Answer:
    return Answer(
        outcomes.to_pylist(),
        pending.to_pylist(),
        [(row["table"], row["reason"], json.loads(row["row"])) for row in rejected.to_pylist()],
    )


# The engines.


def by_replay(trace: Trace) -> Answer:
    operations, signals, cancels = trace.tables()
    r = replay.resolve(operations, signals, cancels, trace.until_ms)
    return answer_of_tables(r.outcomes, r.pending, r.rejected)


def by_spark_batch(strategy: str) -> Callable[[Trace], Answer]:
    def by_strategy(trace: Trace) -> Answer:
        from sojourn.spark import resolve

        session = fixtures.shared_session()
        operations, signals, cancels = (session.createDataFrame(table) for table in trace.tables())
        with resolve(
            operations, signals, cancels, trace.until_ms, strategy=strategy, partitions=3
        ) as r:
            return answer_of_tables(r.outcomes.toArrow(), r.pending.toArrow(), r.rejected.toArrow())

    return by_strategy


def by_spark_stages(trace: Trace) -> Answer:
    pytest.importorskip("pyspark")
    from tests.spark import stages as spark_stages

    return spark_stages.resolve(trace, answer_of_tables)


def by_spark_broadcast(trace: Trace) -> Answer:
    pytest.importorskip("pyspark")
    from tests.spark import stages as spark_stages

    return spark_stages.resolve(trace, answer_of_tables, spark_stages.run_broadcast)


def by_spark_direct(trace: Trace) -> Answer:
    pytest.importorskip("pyspark")
    from tests.spark import stages as spark_stages

    return spark_stages.resolve_direct(trace, answer_of_tables)


def by_spark_streaming(trace: Trace) -> Answer:
    """In five batches, shuffled within the delay, through folders of files."""
    import sojourn.spark as sp

    session = fixtures.shared_session()
    sp.stream_settings(session)
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_arrivals(folder, arrivals(trace, 4, 500))
        tables = [
            sp.read_files(session, "parquet", str(folder / table), table, files_per_batch=1)
            for table in ("operations", "signals", "cancels")
        ]
        out = sp.resolve_stream(*tables, delay_ms=500, shards=4, idle="event", snapshot_every=2)
        checkpoint = str(folder / "checkpoint")
        sp.write_stream(out, str(folder / "out"), checkpoint, trigger=None).awaitTermination()
        outcomes, rejected = (
            pq.read_table(folder / "out" / part).drop_columns(["batch"])
            for part in ("outcomes", "rejected")
        )
        return answer_of_tables(outcomes, pa.table({}), rejected)


def traces(share: float) -> dict[str, tuple[Traces, ...]]:
    """What an engine is tried on, by its kind: with a share of 1, at least 100,000 operations."""

    def some(count: int, at: int = 0) -> range:
        return range(at, at + math.ceil(count * share))

    many = round(20_000 * share)
    # Small ones in which much meets, and a large one. They are not smaller than this: an engine
    # that works in stages takes as long over ten operations as over a thousand.
    everything = (Traces(some(100), 1000), Traces(range(1000, 1001), many, span_ms=5000))
    # Clocks do not reach the ends of 64 bits.
    modest = (Traces(some(350), 300, extremes=False),)
    # The same, and one in which thousands wait for one key.
    deep = (*modest, Traces(range(1000, 1001), many, span_ms=5000, extremes=False))
    # A job of Spark's takes its time, however small it is.
    few = (Traces(some(3), 300), Traces(some(2, 1000), 50_000, span_ms=12_500))
    # Where rows come in no order, none arrives first.
    unordered = (
        Traces(some(15), 300, ties_by_arrival=False),
        Traces(some(16, 2000), 6000, span_ms=12_000, ties_by_arrival=False),
    )
    # A batch of a stream takes its time too; rows come in no order; all of them end.
    large = (
        Traces(
            range(2000, 2001),
            round(101_000 * share),
            span_ms=20_000,
            extremes=False,
            ties_by_arrival=False,
            until=False,
        ),
    )
    return {
        "replay": (*everything, *deep),
        "spark's stages, in process": everything,
        "spark's broadcast, in process": everything,
        "spark's direct way, in process": everything,
        "spark batch, broadcast": few,
        "spark batch, shuffle": few,
        "spark streaming": large,
        "purgatory": modest,
        "progress": deep,
        "engine": unordered,
    }


ENGINES = [
    Engine("replay", by_replay),
    Engine("spark's stages, in process", by_spark_stages),
    Engine("spark's broadcast, in process", by_spark_broadcast),
    Engine("spark's direct way, in process", by_spark_direct),
    Engine("spark batch, broadcast", by_spark_batch("broadcast")),
    Engine("spark batch, shuffle", by_spark_batch("shuffle")),
    Engine("spark streaming", by_spark_streaming, tells_condition=False),
    Engine("purgatory", live.resolve, tells_condition=False),
    Engine("progress", progress.resolve, tells_condition=False),
    Engine("engine", rows_arrivals.resolve, tells_condition=False),
]
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)


# The suite.


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    """Millions of rows are kept for the engines that follow: the collector would look at all."""
    gc.disable()
    yield
    gc.enable()


@each_engine
def test_every_engine_gives_the_answer_of_the_oracle(engine: Engine) -> None:
    share = 1 if sojourn.compiled else 0.1
    compared = 0
    for some in traces(share)[engine.name]:
        for trace, expected in some.each():
            found = engine.resolve(trace)
            difference = differs(trace, expected, found, engine.tells_condition)
            if difference:
                pytest.fail(f"{engine.name} differs from the oracle on {trace.name}\n{difference}")
            compared += len(expected.outcomes) + len(expected.pending)
    assert compared >= 100_000 * share


def test_the_traces_do_everything() -> None:
    status: Counter[str] = Counter()
    reasons: set[tuple[str, str]] = set()
    seen: Counter[str] = Counter()
    for trace, answer in Traces(range(100), 1000).each():
        rows = {row["id"]: row for row in trace.operations}
        status.update(row["status"] for row in answer.outcomes)
        status["pending"] += len(answer.pending)
        reasons |= {(table, reason) for table, reason, _ in answer.rejected}
        for row in answer.outcomes:
            asked = rows[row["id"]]
            deadline_ms = row["at_ms"] - row["waited_ms"] + asked["timeout_ms"]
            seen["completed at the deadline"] += row["condition_ms"] == deadline_ms
            seen["completed at once"] += row["status"] == "completed" and row["waited_ms"] == 0
            seen["no timeout"] += asked["timeout_ms"] == 0
            seen["a quorum"] += 1 < (asked["needed"] or 0) < len(asked["requires"])
            seen["condition too late"] += row["status"] == "expired" and bool(row["condition_ms"])
            seen["astral key"] += row["by_key"] is not None and row["by_key"] > "\uffff"
            seen["empty key"] += row["by_key"] == ""
    assert min(status[name] for name in ("completed", "expired", "cancelled", "pending")) > 1000
    assert len(reasons) == 14 + 5 + 3
    assert len(seen) == 7
    assert min(seen.values()) > 100


def differs(
    trace: Trace, expected: Answer, found: Answer, tells_condition: bool = True
) -> str | None:
    """What is different, in words; of outcomes the first, with all that bears on it."""
    if not tells_condition:
        outcomes = [
            {name: value for name, value in row.items() if name != "condition_ms"}
            for row in expected.outcomes
        ]
        expected = Answer(outcomes, expected.pending, expected.rejected)
    for what in ("outcomes", "pending"):
        right, wrong = by_id(getattr(expected, what)), by_id(getattr(found, what))
        bad = [id for id in right | wrong if right.get(id) != wrong.get(id)]
        if bad:
            about = min((trace.about(id) for id in bad[:50]), key=lambda a: len(a.signals))
            id = about.operations[0]["id"] if about.operations else bad[0]
            lines = [f"{len(bad)} {what} differ, among them that of {id!r}, until {trace.until_ms}"]
            for table in ("operations", "signals", "cancels"):
                lines += [f"  {table[:-1]}: {row}" for row in getattr(about, table)]
            lines += [f"  expected: {right.get(id)}", f"  found:    {wrong.get(id)}"]
            return "\n".join(lines)
        if len(getattr(found, what)) != len(wrong):
            return f"ids more than once in {what}"
    missing = counted(expected.rejected)
    missing.subtract(counted(found.rejected))
    if any(missing.values()):
        lines = [f"  {count:+} {row}" for row, count in missing.items() if count]
        return "\n".join(["rejected, where + is missing and - too many", *lines])
    return None


def by_id(rows: list[Row]) -> dict[str, Row]:
    return {row["id"]: row for row in rows}


def counted(rejected: list[tuple[str, str, Row]]) -> Counter[tuple[str, str, str]]:
    return Counter(
        (table, reason, json.dumps(row, sort_keys=True)) for table, reason, row in rejected
    )
