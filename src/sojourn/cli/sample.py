"""`sojourn sample`: a realistic trace from a seed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

from sojourn.cli.options import add_command, moment_ms

_EXAMPLES = """\
A shop's days: orders wait for payment and stock, shipments for two of three scans, express parcels
for any of two, refunds for the bank. There are hot keys, bursts, rows that are late, sent twice or
broken in every way, and cancels. The same options give the same rows.

examples:
  sojourn sample shop
  sojourn sample shop --operations 2000000 --days 7 --seed 11
  sojourn sample shop-json --operations 10000 --format json --files 4
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "sample",
        _run,
        help="make a realistic trace from a seed",
        description="Write OUT/operations, OUT/signals and OUT/cancels, files in order of arrival.",
        examples=_EXAMPLES,
    )
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder to write")
    parser.add_argument(
        "--operations", type=int, default=500_000, metavar="N", help="default 500000"
    )
    parser.add_argument("--seed", type=int, default=7, help="default 7")
    parser.add_argument("--days", type=int, default=2, help="how long the trace is; default 2")
    parser.add_argument(
        "--start",
        type=moment_ms,
        default=None,
        metavar="DATE",
        help="its first day; default 2026-01-05",
    )
    parser.add_argument("--format", choices=("parquet", "json"), default="parquet")
    parser.add_argument(
        "--files", type=int, default=16, metavar="N", help="files in each folder; default 16"
    )
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def _run(args: argparse.Namespace) -> int:
    from sojourn import sample
    from sojourn.report.units import count

    began_s = perf_counter()
    start_ms = sample.START_MS if args.start is None else args.start
    trace = sample.make(args.operations, args.seed, days=args.days, start_ms=start_ms)
    sample.write(trace, args.out, format=args.format, files=args.files)
    took_s = perf_counter() - began_s
    rows = {
        "operations": trace.operations.num_rows,
        "signals": trace.signals.num_rows,
        "cancels": trace.cancels.num_rows,
    }
    if args.json:
        print(json.dumps({"out": str(args.out), "rows": rows, "seconds": round(took_s, 3)}))
        return 0
    for name, number in rows.items():
        print(f"{name:11}{count(number):>12} rows   {args.out / name}")
    print(f"took {took_s:.1f} s")
    print(
        f"next: sojourn replay {args.out}/operations {args.out}/signals "
        f"--cancels {args.out}/cancels --out answers --report"
    )
    return 0
