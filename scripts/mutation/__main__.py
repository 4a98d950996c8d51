"""The command."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .mutants import Mutant
from .reach import Reach, noted
from .score import (
    NOT_RUN,
    Explanations,
    Result,
    Results,
    Score,
    Subject,
    digest,
    report,
    score,
    subjects,
)
from .stage import Stage, fresh, warm_up
from .trial import AT_IMPORT, FLAKY, Judge, Trial, Verdict, run

_HERE = Path(__file__).parent
_CONTROL = 100  # tests that must pass without a change before any mutant is tried


def main() -> int:
    options = _parse()
    root: Path = options.root.resolve()
    out: Path = options.out if options.out.is_absolute() else root / options.out
    out.mkdir(parents=True, exist_ok=True)
    config = tomllib.loads(options.modules.read_text())
    os.environ.update(config.get("environment", {}))
    os.environ.setdefault("SOJOURN_SEED", str(options.seed))
    sys.path.insert(0, str(root / config["sources"]))
    chosen = _chosen(subjects(options.modules, root, options.longest), options.module)
    results = Results(out / "results.jsonl")
    explanations = Explanations(options.explained)
    samples = {subject.name: _sample(subject, options) for subject in chosen}
    for subject in chosen:
        _try_all(subject, samples[subject.name], results, root, out, options)
    scores = [score(subject, samples[subject.name], results, explanations) for subject in chosen]
    text = report(scores)
    (out / "report.txt").write_text(text)
    print(text)
    return _judge(scores, results, explanations)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mutation", description="Change sources, run tests.")
    parser.add_argument("module", nargs="*", help="module names, or how they end; all if none")
    parser.add_argument("--match", default="", help="only mutants whose name has this text in it")
    parser.add_argument("--sample", type=int, help="so many mutants of each module, at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample and of random tests")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--longest", type=float, help="leave out tests that take more processor seconds"
    )
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--root", type=Path, default=_HERE.parent.parent)
    parser.add_argument("--modules", type=Path, default=_HERE / "modules.toml")
    parser.add_argument("--explained", type=Path, default=_HERE / "explained.toml")
    parser.add_argument("--out", type=Path, default=Path("build", "mutants"))
    return parser.parse_args()


def _chosen(listed: list[Subject], names: list[str]) -> list[Subject]:
    if not names:
        return listed
    chosen = []
    for name in names:
        matching = [one for one in listed if f".{one.name}".endswith(f".{name}")]
        if not matching:
            known = ", ".join(one.name for one in listed)
            raise SystemExit(f"no module {name!r}; there are {known}")
        chosen += matching
    return chosen


def _sample(subject: Subject, options: argparse.Namespace) -> list[Mutant]:
    mutants = [mutant for mutant in subject.mutants if options.match in mutant.name]
    if options.sample is None or options.sample >= len(mutants):
        return mutants
    print(f"{subject.name}: {options.sample} of {len(mutants)} mutants, seed {options.seed}")
    chosen = set(random.Random(options.seed).sample(range(len(mutants)), options.sample))
    return [mutant for n, mutant in enumerate(mutants) if n in chosen]


def _try_all(
    subject: Subject,
    mutants: list[Mutant],
    results: Results,
    root: Path,
    out: Path,
    options: argparse.Namespace,
) -> None:
    """Try the mutants whose fate is not known yet."""
    left = {m.name: m for m in mutants if not results.is_settled(subject, m, options.again)}
    if not left:
        return
    reach = _reach(subject, root, out)
    stage = Stage(subject.name, subject.source)
    quick: list[Trial] = []
    other: list[Trial] = []

    def keep(mutant: Mutant, outcome: str, by: str) -> None:
        results.add(Result(mutant.name, mutant.id, subject.version, subject.tests, outcome, by))

    killers: dict[str, Counter[str]] = defaultdict(Counter)  # of each function

    def ordered(trial: Trial, flaky: set[str]) -> Trial:
        """With tests first that killed other mutants of the same function."""
        kills = killers[left[trial.name].function]
        return trial.without(flaky).in_order(lambda test: -kills[test])

    for mutant in left.values():
        tests = reach.tests_of(mutant.statement, options.longest)
        if not tests:
            keep(mutant, "survived", NOT_RUN)
            continue
        files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
        edited = mutant.edited(subject.source)
        limits = (subject.patience_s, subject.hung_s)
        trial = Trial(mutant.name, subject.name, edited, files, tests, *limits)
        at_import = mutant.statement is None or mutant.statement in reach.at_import
        (other if at_import or not stage.can_take(trial) else quick).append(trial)

    def work(trials: list[Trial], begin: Callable[[Trial, Judge], None]) -> None:
        began_s = told_s = time.monotonic()
        flaky = _flaky(subject, reach, lambda trial: next(run([trial], begin, out, 1)))
        for done, verdict in enumerate(
            run((ordered(trial, flaky) for trial in trials), begin, out, options.jobs), 1
        ):
            mutant = left[verdict.trial.name]
            if trials is quick and verdict.by == AT_IMPORT:
                raise SystemExit(f"{mutant.name}: its trial ended before the first test")
            killers[mutant.function][verdict.by] += 1
            keep(mutant, verdict.outcome, verdict.by)
            if time.monotonic() - told_s > 30:
                told_s = time.monotonic()
                print(f"{subject.name}: {done} of {len(trials)}", flush=True)
        took_s = time.monotonic() - began_s
        print(f"{subject.name}: {len(trials)} trials in {took_s:.0f} s", flush=True)

    if quick:
        stage.play(root, subject.files, lambda: work(quick, stage.begin))
        results.read()
    if other:
        work(other, fresh(root, subject.left_out))


def _reach(subject: Subject, root: Path, out: Path) -> Reach:
    """Which tests run which lines: as it was found for the same source and file, or found now."""
    path = out / f"reach-{subject.name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("source") != subject.version:
        kept = {"source": subject.version, "files": {}}
    versions = {file: digest((root / file).read_text()) for file in subject.files}
    files: dict[str, Any] = {
        file: found
        for file, found in kept["files"].items()
        if found["version"] == versions.get(file)
    }
    if changed := tuple(file for file in versions if file not in files):
        files |= _reach_of(subject, changed, root, out)
        for file in changed:
            files[file]["version"] = versions[file]
        path.write_text(json.dumps({"source": subject.version, "files": files}))
    warm_up({name for found in files.values() for name in found["imported"]})
    return Reach(
        {test: s for found in files.values() for test, s in found["seconds"].items()},
        {test: s for found in files.values() for test, s in found["asleep_s"].items()},
        {test: frozenset(ran) for found in files.values() for test, ran in found["lines"].items()},
        frozenset(line for found in files.values() for line in found["at_import"]),
    )


def _reach_of(
    subject: Subject, files: tuple[str, ...], root: Path, out: Path
) -> dict[str, dict[str, Any]]:
    """Run the tests of these files on the source as it is; what each file was found to do."""
    trial = Trial("clean", subject.name, noted(subject.source), files)
    (verdict,) = run([trial], fresh(root, subject.left_out), out, 1)
    if not 0 < len(verdict.failed) <= FLAKY or not verdict.seconds:
        _must_survive(verdict)
    for test in verdict.failed:
        verdict.seconds.pop(test, None)
        print(f"{subject.name}: {test} fails without any change, and is left out", flush=True)
    seconds = sum(verdict.seconds.values())
    count = len(verdict.seconds)
    print(f"{subject.name}: {count} tests take {seconds:.1f} s of a processor", flush=True)
    reached: dict[str, dict[str, Any]] = {
        file: {
            "seconds": {},
            "asleep_s": {},
            "lines": {},
            "at_import": verdict.at_import,
            "imported": verdict.imported,
        }
        for file in files
    }
    for test, test_s in verdict.seconds.items():
        file = test.partition("::")[0]
        reached[file]["seconds"][test] = test_s
        reached[file]["asleep_s"][test] = verdict.asleep_s[test]
        reached[file]["lines"][test] = [*verdict.lines[test], *verdict.elsewhere.get(file, [])]
    return reached


def _flaky(subject: Subject, reach: Reach, run_one: Callable[[Trial], Verdict]) -> set[str]:
    """Tests that fail now and then with the source as it is, run in the same way as a mutant's."""
    quick = dict(list(reach.tests_of(None).items())[:_CONTROL])
    control = Trial("control", subject.name, subject.source, subject.files, quick)
    flaky: set[str] = set()
    while (verdict := run_one(control.without(flaky))).outcome != "survived":
        if len(flaky) == FLAKY or not verdict.failed:
            _must_survive(verdict)
        flaky.add(verdict.by)
        print(f"{subject.name}: {verdict.by} fails now and then, and is left out", flush=True)
    return flaky


def _must_survive(verdict: Verdict) -> None:
    """Stop here if tests fail although nothing was changed: then no verdict means anything."""
    if verdict.outcome != "survived":
        files = " ".join(verdict.trial.files)
        raise SystemExit(
            f"the tests of {verdict.trial.module} fail without any change: {verdict.outcome} by "
            f"{verdict.by}; see what pytest says of {files}"
        )


def _judge(scores: list[Score], results: Results, explanations: Explanations) -> int:
    """Say what is wrong; 1 if anything is."""
    complaints = [
        f"explained.toml is stale: {complaint}"
        for one in scores
        for complaint in explanations.stale(one.subject, results)
    ]
    complaints += [
        f"{one.subject.name}: {one.value:.1%} killed, and modules.toml asks for "
        f"{one.subject.least:.0%}; test or explain the survivors above"
        for one in scores
        if one.value < one.subject.least
    ]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
