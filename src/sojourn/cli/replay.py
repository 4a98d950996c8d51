"""`sojourn replay`: how operations in files ended, here or on Spark."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import (
    MAPPING,
    add_command,
    add_ending,
    add_mapping,
    add_spark,
    columns_of,
    moment_ms,
)
from sojourn.cli.progress import Progress, showing, watching
from sojourn.cli.report import add_class_column, tell_classes, write_page
from sojourn.cli.session import session
from sojourn.errors import OutOfRange, UnitWarning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sojourn.replay.columns import Columns
    from sojourn.replay.files import Read
    from sojourn.report import Stays, Summary

_EXAMPLES = f"""\
OPERATIONS, SIGNALS and CANCELS are Parquet, CSV or JSON-lines files, the last two also compressed;
folders of them, patterns like 'day=*/*.csv', URLs like s3a://bucket/orders; Delta and Iceberg
tables, where deltalake or pyiceberg is installed. The columns:
  operations  id, submitted_ms, timeout_ms or deadline_ms, requires [(key, offset)],
              needed (none: all of them); any other column is passed through to the outcomes
  signals     key, offset, at_ms
  cancels     id, at_ms

Written are OUT/outcomes, OUT/pending and OUT/rejected, as Parquet. Without --until everything is
taken to end. T is a time like 2026-01-06T12:00 (UTC) or milliseconds since 1970.

{MAPPING}
examples:
  sojourn replay orders.parquet events.parquet
  sojourn replay shop/operations shop/signals --cancels shop/cancels --out answers --report
  sojourn replay shop/operations shop/signals --until 2026-01-06T12:00 --json
  sojourn replay shop/operations shop/signals --engine spark --master 'local[2]' --out answers
  sojourn replay orders.csv events.csv --map id=order_id --map submitted_ms=created_at \\
      --timeout 30min --require 'paid/{{order_id}}' --map key='{{type}}/{{order_id}}' --map at_ms=at
"""

_PARTS = ("outcomes", "pending", "rejected")
_TABLES = ("operations", "signals", "cancels")


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "replay",
        _run,
        help="say how operations in files ended, here or on Spark",
        description="Say of every operation how it ended: completed, expired or cancelled.",
        examples=_EXAMPLES,
        stops_cleanly=True,
    )
    parser.add_argument("operations", metavar="OPERATIONS")
    parser.add_argument("signals", metavar="SIGNALS")
    parser.add_argument("--cancels", metavar="CANCELS")
    parser.add_argument(
        "--until", type=moment_ms, metavar="T", help="take nothing after T into account"
    )
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        default=None,
        help="local, the default: in this process; spark, also meant by --master",
    )
    parser.add_argument("--out", metavar="OUT", type=_folder, help="the folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace what an earlier replay left in OUT"
    )
    parser.add_argument(
        "--timestamps",
        action="store_true",
        help="write times as timestamps, too: at, submitted_at, condition_at",
    )
    parser.add_argument(
        "--report",
        nargs="?",
        const=True,
        metavar="FILE",
        help="also write the page of `sojourn report`; default OUT/report.html",
    )
    add_class_column(parser)
    add_mapping(parser)
    add_spark(parser)
    add_ending(parser)


def _run(args: argparse.Namespace) -> int:
    from sojourn import report
    from sojourn.cli import summary

    began_s = perf_counter()
    engine = args.engine or ("spark" if args.master else "local")
    page = _page_path(args)
    if engine == "spark" and args.out is None:
        raise OutOfRange("the Spark engine writes files: say where with --out OUT")
    columns = columns_of(args)
    _check_out(args)
    with showing(quiet=args.quiet) as progress, _unit_warnings_printed():
        resolve = _on_spark if engine == "spark" else _here
        stays, wholly_rejected = resolve(args, columns, progress)
        tell_classes(stays, args.class_column)
        if page is None:
            progress.step("counting")
            totals: Summary = report.summarise(stays)
        else:
            totals = write_page(stays, page, progress).summary
    places = {name: args.out / name for name in _PARTS} if args.out else {}
    if page is not None:
        places["report"] = page
    say = summary.as_json if args.json else summary.as_text
    print(say(totals, perf_counter() - began_s, engine, places))
    if wholly_rejected:
        print(f"sojourn: {_complaint(wholly_rejected, totals)}", file=sys.stderr)
        return 2
    return 1 if args.fail_on_rejected and totals.rejected_rows else 0


def _folder(text: str) -> Path:
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"{text} is a URL, and the answer is written to a folder: name one, and copy it there"
        )
    return Path(text)


def _complaint(tables: list[str], totals: Summary) -> str:
    reasons = [f"{table}: {reason}" for table, reason in totals.rejected or {} if table in tables]
    return (
        f"every row of {' and of '.join(tables)} was rejected ({'; '.join(sorted(reasons)[:3])}); "
        "is it the right file, and are its columns the right ones?"
    )


@contextmanager
def _unit_warnings_printed() -> Iterator[None]:
    """Say what looks like another unit once for each column, not where in the program."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnitWarning)
        yield
    columns_warned_of = set()
    for warning in caught:
        text = str(warning.message)
        if not issubclass(warning.category, UnitWarning):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
        elif (column := text.partition(" looks like ")[0]) not in columns_warned_of:
            columns_warned_of.add(column)
            print(f"sojourn: warning: {text}", file=sys.stderr)


def _page_path(args: argparse.Namespace) -> Path | None:
    if args.report is None:
        return None
    if args.report is not True:
        return Path(args.report)
    if args.out is None:
        raise OutOfRange("--report needs a place: give --out OUT or --report FILE")
    return Path(args.out) / "report.html"


def _paths(args: argparse.Namespace) -> dict[str, str]:
    paths = {name: getattr(args, name) for name in _TABLES}
    return {name: path for name, path in paths.items() if path is not None}


def _check_out(args: argparse.Namespace) -> None:
    """Before the work, not after it."""
    from sojourn.replay import answer, lakes

    if args.out is not None and any((args.out / name).exists() for name in _PARTS):
        inputs = [file for name, path in _paths(args).items() for file in lakes.find(path, name)]
        answer.check_place(args.out, overwrite=args.overwrite, inputs=inputs)


def _check_class_column(args: argparse.Namespace, names: list[str]) -> None:
    """Before the work, not after it."""
    if args.class_column is not None and args.class_column not in names:
        raise OutOfRange(
            f"there is no column {args.class_column!r} to tell classes by; "
            f"operations have {', '.join(names)}"
        )


def _here(
    args: argparse.Namespace, columns: dict[str, Columns], progress: Progress
) -> tuple[Stays, list[str]]:
    from sojourn import report
    from sojourn.replay import answer, files

    progress.step("reading")
    read: dict[str, Read] = {}
    for name, path in _paths(args).items():
        read[name] = files.read(path, name, columns[name])
        if name == "operations":
            _check_class_column(args, read[name].table.column_names)
    operations, signals = read["operations"], read["signals"]
    many = f"{len(operations.table):,} operations and {len(signals.table):,} signals"
    progress.step(f"replaying {many}")
    resolution = files.resolve_read(operations, signals, read.get("cancels"), args.until)
    if args.out is not None:
        progress.step(f"writing {args.out}")
        written = resolution.with_timestamps() if args.timestamps else resolution
        answer.write(written, args.out, overwrite=args.overwrite)
    stays = report.Stays.of_tables(resolution.outcomes, resolution.pending, resolution.rejected)
    return stays, [name for name, part in read.items() if len(part) and not len(part.table)]


def _on_spark(
    args: argparse.Namespace, columns: dict[str, Columns], progress: Progress
) -> tuple[Stays, list[str]]:
    from sojourn import report
    from sojourn.replay import answer
    from sojourn.spark import direct, tables

    paths = _paths(args)
    for name, path in paths.items():
        tables.warn_of_units(path, name, columns[name])
    progress.step("starting Spark")
    with (
        session(args, {}) as spark,
        watching(spark, progress),
        answer.writing(args.out, overwrite=args.overwrite) as aside,
    ):
        progress.step("replaying on Spark")
        tables_by_name = {
            name: tables.open_table(spark, path, name, columns[name])
            for name, path in paths.items()
        }
        _check_class_column(args, tables_by_name["operations"].columns.names)
        frames = {name: table.frame() for name, table in tables_by_name.items()}
        if args.timestamps or not direct.resolve_files(tables_by_name, args.until, aside):
            size = sum(table.bytes for table in tables_by_name.values())
            _write_frames(args, frames, size, aside, progress)
        wholly_rejected = _wholly_rejected(spark, frames, aside)
    return report.Stays.of_folder(args.out), wholly_rejected


def _write_frames(
    args: argparse.Namespace,
    frames: dict[str, DataFrame],
    size: int,
    aside: Path,
    progress: Progress,
) -> None:
    from sojourn.spark import batch

    operations = frames["operations"]
    resolution = batch.resolve(
        operations,
        frames["signals"],
        frames.get("cancels"),
        args.until,
        partitions=batch.partitions_for(operations, size),
    )
    with resolution:
        written = resolution.with_timestamps() if args.timestamps else resolution
        for name in _PARTS:
            progress.step(f"writing {args.out / name}")
            getattr(written, name).write.parquet(str(aside / name))


def _wholly_rejected(spark: SparkSession, frames: dict[str, DataFrame], aside: Path) -> list[str]:
    """Which tables had rows, and none that means anything; only those with rejected ones."""
    counts = spark.read.parquet(str(aside / "rejected")).groupBy("table").count().collect()
    names = []
    for name, many in sorted(((row[0], row[1]) for row in counts), key=lambda one: one[0]):
        if frames[name].limit(many + 1).count() == many:
            names.append(name)
    return names
