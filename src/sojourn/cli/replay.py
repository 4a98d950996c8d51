"""`sojourn replay`: how operations in files ended, here or on Spark."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import add_ending, add_spark, moment_ms
from sojourn.cli.progress import Progress, showing, watching
from sojourn.cli.report import add_class_column, tell_classes, write_page
from sojourn.cli.session import session
from sojourn.errors import OutOfRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sojourn.report import Stays, Summary

_EXAMPLES = """\
OPERATIONS, SIGNALS and CANCELS are Parquet or JSON-lines files, or folders of them. The columns:
  operations  id, submitted_ms, timeout_ms, requires [(key, offset)], needed (none: all of them);
              any other column is passed through to the outcomes
  signals     key, offset, at_ms
  cancels     id, at_ms

Written are OUT/outcomes, OUT/pending and OUT/rejected, as Parquet. Without --until everything is
taken to end. T is a time like 2026-01-06T12:00 (UTC) or milliseconds since 1970.

examples:
  sojourn replay orders.parquet events.parquet
  sojourn replay shop/operations shop/signals --cancels shop/cancels --out answers --report
  sojourn replay shop/operations shop/signals --until 2026-01-06T12:00 --json
  sojourn replay shop/operations shop/signals --engine spark --master 'local[2]' --out answers
"""

_JSON_ENDINGS = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz")
_PARTS = ("outcomes", "pending", "rejected")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "replay",
        help="say how operations in files ended, here or on Spark",
        description="Say of every operation how it ended: completed, expired or cancelled.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("operations", metavar="OPERATIONS", type=Path)
    parser.add_argument("signals", metavar="SIGNALS", type=Path)
    parser.add_argument("--cancels", metavar="CANCELS", type=Path)
    parser.add_argument(
        "--until", type=moment_ms, metavar="T", help="take nothing after T into account"
    )
    parser.add_argument(
        "--engine",
        choices=("local", "spark"),
        default=None,
        help="local, the default: in this process; spark, also meant by --master",
    )
    parser.add_argument("--out", metavar="OUT", type=Path, help="the folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace what an earlier replay left in OUT"
    )
    parser.add_argument(
        "--report",
        nargs="?",
        const=True,
        metavar="FILE",
        help="also write the page of `sojourn report`; default OUT/report.html",
    )
    add_class_column(parser)
    add_spark(parser)
    add_ending(parser)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    from sojourn import report
    from sojourn.cli import summary

    began_s = perf_counter()
    engine = args.engine or ("spark" if args.master else "local")
    page = _page_path(args)
    if engine == "spark" and args.out is None:
        raise OutOfRange("the Spark engine writes files: say where with --out OUT")
    if args.out is not None and not args.overwrite:
        _refuse_to_replace(args.out)
    with showing(quiet=args.quiet) as progress:
        resolve = _on_spark if engine == "spark" else _here
        stays = resolve(args, progress)
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
    return 1 if args.fail_on_rejected and totals.rejected_rows else 0


def _page_path(args: argparse.Namespace) -> Path | None:
    if args.report is None:
        return None
    if args.report is not True:
        return Path(args.report)
    if args.out is None:
        raise OutOfRange("--report needs a place: give --out OUT or --report FILE")
    return Path(args.out) / "report.html"


def _refuse_to_replace(out: Path) -> None:
    for part in (out / name for name in _PARTS):
        if part.exists():
            raise FileExistsError(f"{part} is there already; add --overwrite or name another OUT")


def _check_class_column(args: argparse.Namespace, names: list[str]) -> None:
    """Before the work, not after it."""
    if args.class_column is not None and args.class_column not in names:
        raise OutOfRange(
            f"there is no column {args.class_column!r} to tell classes by; "
            f"operations have {', '.join(names)}"
        )


def _here(args: argparse.Namespace, progress: Progress) -> Stays:
    import pyarrow as pa

    from sojourn import replay, report
    from sojourn.replay import files

    progress.step("reading")
    operations = files.read(args.operations, "operations")
    _check_class_column(args, operations.table.column_names)
    signals = files.read(args.signals, "signals")
    cancels = files.read(args.cancels, "cancels") if args.cancels else None
    many = f"{len(operations.table):,} operations and {len(signals.table):,} signals"
    progress.step(f"replaying {many}")
    found = replay.resolve(
        operations.table, signals.table, cancels.table if cancels else None, args.until
    )
    broken = [read.rejected for read in (operations, signals, cancels) if read is not None]
    rejected = pa.concat_tables([*broken, found.rejected])
    if args.out is not None:
        progress.step(f"writing {args.out}")
        whole = replay.Resolution(found.outcomes, found.pending, rejected)
        files.write(whole, args.out, overwrite=args.overwrite)
    return report.Stays.of_tables(found.outcomes, found.pending, rejected)


def _on_spark(args: argparse.Namespace, progress: Progress) -> Stays:
    import sojourn.spark as on_spark
    from sojourn import report

    progress.step("starting Spark")
    with session(args, {}) as spark, watching(spark, progress):
        progress.step("replaying on Spark")
        operations, broken = _frames(spark, args.operations, "operations")
        _check_class_column(args, operations.columns)
        signals, more = _frames(spark, args.signals, "signals")
        broken += more
        cancels = None
        if args.cancels:
            cancels, more = _frames(spark, args.cancels, "cancels")
            broken += more
        found = on_spark.resolve(operations, signals, cancels, args.until)
        # Aside first: an earlier answer stays until there is a new one.
        aside = args.out / "_writing"
        with found:
            for name in _PARTS:
                progress.step(f"writing {args.out / name}")
                frame = getattr(found, name)
                for lines in broken if name == "rejected" else ():
                    frame = frame.unionByName(lines)
                frame.write.mode("overwrite").parquet(str(aside / name))
    for name in _PARTS:
        if (args.out / name).exists():
            shutil.rmtree(args.out / name)
        (aside / name).rename(args.out / name)
    shutil.rmtree(aside)
    return report.Stays.of_folder(args.out)


def _frames(spark: SparkSession, path: Path, table: str) -> tuple[DataFrame, list[DataFrame]]:
    """The rows, and of JSON the lines that are none, which are rejected."""
    if not path.exists():
        raise FileNotFoundError(f"{table}: there is no {path}")
    if not _is_json(path):
        return spark.read.parquet(str(path)), []
    from pyspark.sql import functions as F

    from sojourn.spark.intake import BROKEN, CORRUPT
    from sojourn.spark.sources import parse_json

    extras = ""
    if table == "operations":
        known = ("id", "submitted_ms", "timeout_ms", "requires", "needed", CORRUPT)
        fields = spark.read.json(str(path)).schema.fields
        extras = ", ".join(
            f"`{field.name}` {field.dataType.simpleString()}"
            for field in fields
            if field.name not in known
        )
    lines = parse_json(spark.read.text(str(path)), table, extras=extras)
    broken = lines.where(F.col(CORRUPT).isNotNull()).select(
        F.lit(table).alias("table"), F.lit(BROKEN).alias("reason"), F.col(CORRUPT).alias("row")
    )
    return lines.where(F.col(CORRUPT).isNull()).drop(CORRUPT), [broken]


def _is_json(path: Path) -> bool:
    files = [path] if path.is_file() else path.rglob("*")
    return any(file.name.endswith(_JSON_ENDINGS) for file in files)
