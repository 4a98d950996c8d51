"""`python -m benchmarks`: measure everything side by side, print the tables, draw the picture.

Every measurement has a process of its own. Within a workload the contenders take turns, the whole
round is repeated, and medians are reported, so that a slow minute of the machine hits them all.
Garbage collectors stay at their defaults, in Python and in the JVM.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import compare, plan, report
from benchmarks.bar import bar
from benchmarks.contenders import LABELS
from benchmarks.inputs import Inputs
from benchmarks.jvm import Jvm
from benchmarks.plot import plot
from benchmarks.results import Results
from benchmarks.targets import targets

if TYPE_CHECKING:
    from benchmarks.case import Case

_OUT = Path(__file__).parent / "results"


def main() -> None:
    options = parse()
    console = Console()
    if not console.is_terminal:
        console.width = 160
    if options.compare is None:
        measure(options, console)
    else:
        sys.exit(compare.compare(options, console))


def measure(options: argparse.Namespace, console: Console) -> None:
    """Everybody side by side."""
    size = plan.QUICK if options.quick else plan.FULL
    load = os.getloadavg()[0]
    with console.status("getting Kafka ready"):
        jvm = Jvm()
    kafka = f"Kafka skipped: {jvm.missing}"
    if not jvm.missing:
        kafka = f"Kafka {jvm.version}, {jvm.settings}"
    results = Results(quick=options.quick, kafka=kafka, load=load)
    with tempfile.TemporaryDirectory(prefix="sojourn-bench-") as folder:
        inputs = Inputs(Path(folder))
        for workload in options.only or plan.WORKLOADS:
            repeats = options.repeats or (1 if options.quick else plan.repeats_of(workload))
            with console.status(f"{workload}: drawing the numbers"):
                cases = plan.cases(workload, size, inputs, repeats, options.scenario)
            if options.contender:
                cases = [case for case in cases if case.contender in options.contender]
            if cases:
                run(cases, results, jvm, console)

    reached = targets(results, size)
    report.show(console, results, reached)
    options.out.mkdir(parents=True, exist_ok=True)
    told = [{**asdict(target), "verdict": target.verdict} for target in reached]
    results.write(options.out / "results.json", told)
    written = "results.json"
    try:
        plot(results, options.out / "results.png")
        written = "results.json and results.png"
    except ImportError as error:
        console.print(f"No picture: {error}", highlight=False)
    console.print(f"Written to {options.out}: {written}", highlight=False)


def run(cases: list[Case], results: Results, jvm: Jvm, console: Console) -> None:
    """Take turns until every case has had its repeats."""
    outcomes = [(case, results.expect(case)) for case in cases]
    rounds = [
        (case, outcome)
        for turn in range(max(case.repeats for case in cases))
        for case, outcome in outcomes
        if turn < case.repeats
    ]
    with bar(console) as progress:
        task = progress.add_task("", total=len(rounds), workload=cases[0].workload)
        for case, outcome in rounds:
            label = f"{LABELS[case.contender]}, {case.scenario}"
            progress.update(task, description=label)
            if not outcome.skipped:
                outcome.take(case.run(jvm))
            progress.advance(task)
        progress.update(task, description="")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat, few minutes")
    parser.add_argument(
        "--only", action="append", choices=plan.WORKLOADS, help="this workload; may be repeated"
    )
    parser.add_argument(
        "--scenario", default="", metavar="TEXT", help="only those with this in their name"
    )
    parser.add_argument(
        "--contender", action="append", choices=LABELS, metavar="NAME",
        help="only this one, by its name in results.json; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=int, metavar="N",
        help="how often each case runs (3 or 5; with --quick 1; with --compare 7 on each side)",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=_OUT, help="where results are written")
    parser.add_argument(
        "--compare", type=Path, metavar="SRC",
        help="run sojourn's own contenders in turn on this source tree and on the one in SRC (the "
        "folder that holds sojourn/, built); status 1 if anything is slower here",
    )  # fmt: skip
    parser.add_argument(
        "--tolerance", type=float, default=5.0, metavar="PERCENT",
        help="with --compare: how much slower is still as fast (5)",
    )  # fmt: skip
    return parser.parse_args()


if __name__ == "__main__":
    main()
