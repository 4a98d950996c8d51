"""`sojourn stream`: how operations end while their rows arrive, on Spark."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import (
    add_command,
    add_ending,
    add_mapping,
    add_spark,
    columns_of,
    duration_ms,
    need,
)
from sojourn.cli.progress import Progress, showing
from sojourn.cli.session import session
from sojourn.errors import OutOfRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from sojourn.spark import StreamBatch

_EXAMPLES = """\
OPERATIONS, SIGNALS and CANCELS are folders that fill with files, or topics with --format kafka.
Each of them has a clock, --delay behind the latest row that it has brought. With --idle wall, for
live rows, time follows the slowest that is not idle, and the clock on the wall when all are idle;
with --idle event, for old rows, it follows the fastest, and only rows move it. Rows at or before
that time are late, and rejected with that reason.

OUT/outcomes and OUT/rejected get a folder for each batch, exactly once, also over restarts with
the same checkpoint; a topic gets each message once in the same way. What waits when the command
stops goes on waiting in the checkpoint; `sojourn state` shows it. With --from-checkpoint a stream
goes on in a new checkpoint where another one stands, with as many shards as you like.

examples:
  sojourn stream --operations in/operations --signals in/signals --out out --checkpoint state
  sojourn stream --operations shop/operations --signals shop/signals --cancels shop/cancels \\
      --out out --checkpoint state --available-now --idle event --files-per-batch 1
  sojourn stream --format kafka --bootstrap-servers broker:9092 --operations orders \\
      --signals payments --extras 'class string' --out-topic outcomes --checkpoint state
  sojourn stream --operations in/operations --signals in/signals --out more --checkpoint wider \
      --from-checkpoint state --shards 128

Spark's Kafka connector comes from Maven Central by itself; where it cannot, give its jars with
--conf spark.jars=FILE,FILE.
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "stream",
        _run,
        help="say how operations end as their rows arrive, on Spark",
        description="Say of every operation how it ended, as soon as that is certain.",
        examples=_EXAMPLES,
        stops_cleanly=True,
    )
    source = parser.add_argument_group("what comes in")
    source.add_argument("--operations", required=True, metavar="FOLDER|TOPIC")
    source.add_argument("--signals", required=True, metavar="FOLDER|TOPIC")
    source.add_argument("--cancels", metavar="FOLDER|TOPIC")
    source.add_argument("--format", choices=("parquet", "json", "kafka"), default="parquet")
    source.add_argument(
        "--extras",
        default="",
        metavar="COLUMNS",
        help="columns of operations to pass through, as in SQL: 'class string, amount long'; "
        "Parquet files that are there already tell them by themselves",
    )
    source.add_argument(
        "--files-per-batch", type=int, metavar="N", help="take at most N new files at a time"
    )
    source.add_argument("--bootstrap-servers", metavar="HOST:PORT,…", help="where Kafka is")
    source.add_argument(
        "--starting",
        default="earliest",
        metavar="OFFSETS",
        help="where in the topics to begin: earliest, latest or Spark's JSON; default earliest",
    )
    target = parser.add_argument_group("what comes out")
    target.add_argument("--out", metavar="OUT", help="the folder to write")
    target.add_argument("--out-format", choices=("parquet", "json"), default="parquet")
    target.add_argument("--out-topic", metavar="TOPIC", help="a Kafka topic to write to instead")
    target.add_argument(
        "--checkpoint", required=True, metavar="FOLDER", help="where the state is kept"
    )
    target.add_argument(
        "--from-checkpoint",
        metavar="FOLDER",
        help="begin where this other checkpoint stands; it is left as it is",
    )
    rules = parser.add_argument_group("time")
    rules.add_argument(
        "--delay",
        type=duration_ms,
        default=10_000,
        metavar="DURATION",
        help="how much later than others of its source a row may come: 500ms, 10s, 5min; "
        "default 10s",
    )
    rules.add_argument("--idle", choices=("wall", "event"), default="wall", help="default wall")
    rules.add_argument(
        "--follow",
        choices=("slowest", "fastest"),
        help="the source that time follows; default slowest with --idle wall, else fastest",
    )
    rules.add_argument(
        "--idle-after",
        type=duration_ms,
        metavar="DURATION",
        help="with --idle wall: a source that is silent for so long holds nobody up; default: "
        "as --delay",
    )
    rules.add_argument(
        "--ahead",
        type=duration_ms,
        default=60_000,
        metavar="DURATION",
        help="with --idle wall: rows further beyond the clock are rejected; default 1min",
    )
    rules.add_argument(
        "--remember",
        type=duration_ms,
        default=86_400_000,
        metavar="DURATION",
        help="how long ids that ended, and keys without news or anyone waiting, are known; "
        "default 24h",
    )
    rules.add_argument("--shards", type=int, default=32, metavar="N", help="default 32")
    rules.add_argument(
        "--trigger",
        default="1 second",
        metavar="INTERVAL",
        help="how often a batch is begun; default '1 second'",
    )
    rules.add_argument(
        "--available-now",
        "--once",
        action="store_true",
        help="take what is there, then stop; else it goes on until Ctrl-C",
    )
    add_mapping(parser)
    add_spark(parser)
    add_ending(parser)


class Batches:
    """What this run has seen go out, batch by batch, and what the stream holds."""

    def __init__(self, progress: Progress) -> None:
        self.batches = 0
        self.counts: dict[str, int] = {}
        self.waiting: int | None = None
        self._progress = progress

    def __call__(self, batch: StreamBatch) -> None:
        self.batches += 1
        self.waiting = batch.operations
        for status, rows in batch.counts.items():
            self.counts[status] = self.counts.get(status, 0) + rows
        held = f"{batch.operations:,} waiting, {batch.keys:,} keys and {batch.ids:,} ids held"
        self._progress.update(self.batches, None, f"batches: {self.text()}; {held}")

    def text(self) -> str:
        """Return what has ended, in words."""
        some = [(status, rows) for status, rows in sorted(self.counts.items()) if rows]
        return ", ".join(f"{rows:,} {status}" for status, rows in some) or "nothing has ended"


def _run(args: argparse.Namespace) -> int:
    if (args.out is None) == (args.out_topic is None):
        raise OutOfRange("say where the outcomes go: either --out OUT or --out-topic TOPIC")
    if args.format == "kafka" or args.out_topic:
        need(args.bootstrap_servers, "--bootstrap-servers", "Kafka has to be found")
    began_s = perf_counter()
    with showing(quiet=args.quiet) as progress:
        batches = Batches(progress)
        progress.step("starting Spark")
        with session(args, _settings(args)) as spark:
            query = _start(spark, args, batches)
            progress.step("streaming")
            try:
                _await(query)
            except KeyboardInterrupt:
                print(_text(batches, perf_counter() - began_s, args), file=sys.stderr)
                raise
    return _conclude(args, batches, perf_counter() - began_s)


def _settings(args: argparse.Namespace) -> dict[str, str]:
    from sojourn.spark import KAFKA_PACKAGE
    from sojourn.spark.session import local_cores

    settings = {}
    master = args.master or "local[*]"
    if master.startswith("local"):
        # One task a core; one without a shard would cost time in every batch and do nothing.
        tasks = max(1, min(args.shards, local_cores(master)))
        settings["spark.sql.shuffle.partitions"] = str(tasks)
    jars = {"spark.jars", "spark.jars.packages"} & {name for name, _ in args.conf}
    if (args.format == "kafka" or args.out_topic) and not jars:
        settings["spark.jars.packages"] = KAFKA_PACKAGE
    return settings


def _start(spark: SparkSession, args: argparse.Namespace, batches: Batches) -> StreamingQuery:
    import sojourn.spark as on_spark

    on_spark.stream_settings(spark, shards=args.shards)
    fork = None
    if args.from_checkpoint:
        fork = on_spark.fork_checkpoint(spark, args.from_checkpoint, args.checkpoint)

    columns = columns_of(args)

    def read(place: str, table: str) -> DataFrame:
        extras = args.extras if table == "operations" else ""
        if args.format == "kafka":
            return on_spark.from_kafka(
                spark,
                args.bootstrap_servers,
                place,
                table,
                extras=extras,
                starting=args.starting,
                columns=columns[table],
            )
        return on_spark.read_files(
            spark,
            args.format,
            place,
            table,
            extras=extras,
            files_per_batch=args.files_per_batch,
            columns=columns[table],
        )

    ended = on_spark.resolve_stream(
        read(args.operations, "operations"),
        read(args.signals, "signals"),
        read(args.cancels, "cancels") if args.cancels else None,
        delay_ms=args.delay,
        shards=args.shards,
        idle=args.idle,
        follow=args.follow,
        idle_after_ms=args.idle_after,
        ahead_ms=args.ahead,
        remember_ms=args.remember,
        fork=fork,
    )
    trigger = None if args.available_now else args.trigger
    if args.out_topic:
        return on_spark.write_kafka(
            ended,
            args.bootstrap_servers,
            args.out_topic,
            args.checkpoint,
            trigger=trigger,
            on_batch=batches,
        )
    return on_spark.write_stream(
        ended,
        args.out,
        args.checkpoint,
        trigger=trigger,
        format=args.out_format,
        on_batch=batches,
    )


def _await(query: StreamingQuery) -> None:
    """Wait for its end, in short waits, so that Ctrl-C is heard."""
    try:
        while not query.awaitTermination(1):
            pass
    except KeyboardInterrupt:
        with contextlib.suppress(Exception):  # it broke into a call to the JVM; the next may fail
            query.stop()
        raise


def _conclude(args: argparse.Namespace, batches: Batches, took_s: float) -> int:
    """Say what OUT holds, or where it cannot be read from here what this run has written."""
    rejected = batches.counts.get("rejected", 0)
    if args.out is None or "://" in args.out:
        print(_text(batches, took_s, args))
    else:
        from sojourn import report
        from sojourn.cli import summary

        totals = report.summarise(report.Stays.of_folder(args.out))
        totals = replace(totals, pending=batches.waiting)
        rejected = totals.rejected_rows
        places = {name: Path(args.out) / name for name in ("outcomes", "rejected")}
        say = summary.as_json if args.json else summary.as_text
        print(say(totals, took_s, f"spark stream, {batches.batches} batches", places))
    return 1 if args.fail_on_rejected and rejected else 0


def _text(batches: Batches, took_s: float, args: argparse.Namespace) -> str:
    waiting = "" if batches.waiting is None else f" ({batches.waiting:,} operations)"
    return (
        f"{batches.batches} batches in {took_s:.1f} s: {batches.text()}; "
        f"what waits is in {args.checkpoint}{waiting}"
    )
