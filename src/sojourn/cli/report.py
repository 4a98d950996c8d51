"""`sojourn report`: one HTML page about what a replay or a stream has written."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_EXAMPLES = """\
The page stands alone: no network, no other files. It says how operations ended, how long they
waited, when, for which keys, why rows were rejected, and what the timeout should have been, overall
and for each class, which is a column of operations that was passed through.

examples:
  sojourn report answers
  sojourn report answers -o today.html --class-column region
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="make a page about what waited, how long, and what the timeout should have been",
        description="Read OUT, which `sojourn replay` or `sojourn stream` wrote; write one page.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder with outcomes/")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: OUT/report.html"
    )
    add_class_column(parser)
    parser.set_defaults(run=_run)


def add_class_column(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--class-column",
        metavar="NAME",
        help="the column that says what kind of operation it is; default: class, if there is one",
    )


def _run(args: argparse.Namespace) -> int:
    raise NotImplementedError
