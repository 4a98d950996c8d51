"""`sojourn report`: one HTML page about what a replay or a stream has written."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from sojourn.cli.options import add_command, moment_ms
from sojourn.cli.progress import Progress, showing

if TYPE_CHECKING:
    from sojourn.report import Numbers, Stays

_EXAMPLES = """\
The page stands alone: no network, no other files. It says how operations ended, how long they
waited, when, for which keys, why rows were rejected, and what the timeout should have been, overall
and for each class, which is a column of operations that was passed through.

With two folders the page has both side by side: this week against last, or the same operations
replayed with other timeouts. T is a time like 2026-01-06T12:00 (UTC) or milliseconds since 1970.

examples:
  sojourn report answers
  sojourn report answers -o today.html --class-column region
  sojourn report last-week this-week -o weeks.html
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "report",
        _run,
        help="make a page about what waited, how long, and what the timeout should have been",
        description="Read OUT, which `sojourn replay` or `sojourn stream` wrote; write one page.",
        examples=_EXAMPLES,
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder with outcomes/")
    parser.add_argument(
        "other", metavar="OTHER", type=Path, nargs="?", help="another one, to compare it with"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="default: OUT/report.html; of two, OTHER/comparison.html",
    )
    add_class_column(parser)
    parser.add_argument(
        "--until",
        type=moment_ms,
        metavar="T",
        help="the data is complete up to T; default: the last event that the outcomes show",
    )
    parser.add_argument("--json", action="store_true", help="say what came out as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")


def add_class_column(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--class-column",
        metavar="NAME",
        help="the column that says what kind of operation it is; default: class, if there is one",
    )


def tell_classes(stays: Stays, column: str | None) -> None:
    """By the column that was asked for, else by `class` if that is one."""
    if column is not None:
        stays.tell_classes_by(column)
    elif "class" in stays.names:
        stays.tell_classes_by("class")


def write_page(stays: Stays, path: Path, progress: Progress) -> Numbers:
    """Count, draw and write the page; the file is there whole or not at all."""
    from sojourn import report

    numbers = _count(stays, progress)
    _write(path, report.page(numbers))
    return numbers


def _count(stays: Stays, progress: Progress) -> Numbers:
    from sojourn import report

    rows = 0

    def on_rows(more: int) -> None:
        nonlocal rows
        rows += more
        progress.update(rows, None, "rows read")

    progress.step("counting for the report")
    return report.count(stays, on_rows)


def _write(path: Path, page: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(page, encoding="utf-8")
    unfinished.replace(path)


def _run(args: argparse.Namespace) -> int:
    from sojourn import report
    from sojourn.cli import summary

    began_s = perf_counter()
    folders = [args.out] if args.other is None else [args.out, args.other]
    name = "report.html" if args.other is None else "comparison.html"
    path = args.output or folders[-1] / name
    sources = [report.Stays.of_folder(folder, until_ms=args.until) for folder in folders]
    for stays in sources:
        tell_classes(stays, args.class_column)
    with showing(quiet=args.quiet) as progress:
        counted = [_count(stays, progress) for stays in sources]
        if args.other is None:
            _write(path, report.page(counted[0]))
        else:
            _write(path, report.comparison(counted[0], counted[1], _names(args.out, args.other)))
    say = summary.as_json if args.json else summary.as_text
    for numbers in counted:
        print(say(numbers.summary, perf_counter() - began_s, "report", {"report": path}))
    return 0


def _names(one: Path, other: Path) -> tuple[str, str]:
    """What to call two folders: by their last names, or as they were given if these are alike."""
    return (one.name, other.name) if one.name != other.name else (str(one), str(other))
