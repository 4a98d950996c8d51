"""The score: results on disk, explanations of survivors, and the report."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from .mutants import Mutant, mutants_of

NOT_RUN = "no test runs this line"
_DEAD = ("killed", "timed out", "hung")


@dataclass(frozen=True)
class Subject:
    """A module to change: its source, its tests, its mutants."""

    name: str
    path: str  # of the source, from the root
    source: str
    files: tuple[str, ...]
    tests: str  # a digest of the test files
    least: float  # the score it must have
    patience_s: float
    hung_s: float
    left_out: tuple[str, ...]  # tests, or how their ids begin
    mutants: tuple[Mutant, ...]

    @property
    def version(self) -> str:
        return digest(self.source)


@dataclass(frozen=True)
class Result:
    """What became of one mutant, with the versions of source and tests that this is true of."""

    name: str
    id: str
    source: str
    tests: str
    outcome: str
    by: str = ""


def digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def subjects(modules: Path, root: Path, longest_s: float | None) -> list[Subject]:
    """Read what is to be changed, and which tests judge it: those that take no longer than this."""
    config = tomllib.loads(modules.read_text())
    listed = []
    for name, entry in config["modules"].items():
        path = root / config["sources"] / Path(*name.split(".")).with_suffix(".py")
        if not path.exists():
            raise SystemExit(f"{modules.name} names {name}, and there is no {path}; correct it")
        files = [file for pattern in entry["tests"] for file in sorted(root.glob(pattern))]
        if not files:
            raise SystemExit(f"{modules.name} gives {name} tests that do not exist; correct it")
        source = path.read_text()
        listed.append(
            Subject(
                name,
                str(path.relative_to(root)),
                source,
                tuple(str(file.relative_to(root)) for file in dict.fromkeys(files)),
                digest(str(longest_s), *(file.read_text() for file in files)),
                entry.get("least", 0.0),
                config.get("patience_s", 0.5),
                config.get("hung_s", 60.0),
                tuple(config.get("left_out", ())),
                tuple(mutants_of(name, source)),
            )
        )
    return listed


class Results:
    """The results so far, a line each in a file, so that a run that was cut off can go on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._of: dict[tuple[str, str], Result] = {}
        if path.exists():
            whole, newline, _ = path.read_text().rpartition("\n")
            path.write_text(whole + newline)  # the last line may have been cut off
            self.read()

    def read(self) -> None:
        """Take up what is in the file, where another process may have added to it."""
        for line in self._path.read_text().splitlines():
            result = Result(**json.loads(line))
            self._of[result.source, result.id] = result

    def add(self, result: Result) -> None:
        self._of[result.source, result.id] = result
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(result)) + "\n")

    def of(self, subject: Subject, mutant: Mutant) -> Result | None:
        """What is known of a mutant of this version of the source."""
        return self._of.get((subject.version, mutant.id))

    def is_settled(self, subject: Subject, mutant: Mutant, again: bool) -> bool:
        """Whether the mutant needs no trial: a survivor needs one when its tests have changed."""
        result = self.of(subject, mutant)
        if result is None:
            return False
        return result.outcome != "survived" or (result.tests == subject.tests and not again)


class Explanations:
    """Why survivors are no gap: for each module, a mutant's name and one sentence."""

    def __init__(self, path: Path) -> None:
        self._why: dict[str, dict[str, str]] = {}
        if path.exists():
            self._why = tomllib.loads(path.read_text())

    def why(self, mutant: Mutant) -> str | None:
        return self._why.get(mutant.module, {}).get(mutant.name)

    def stale(self, subject: Subject, results: Results) -> list[str]:
        """Explanations of mutants that do not exist (any more), or that a test kills."""
        by_name = {mutant.name: mutant for mutant in subject.mutants}
        complaints = []
        for name in self._why.get(subject.name, {}):
            if name not in by_name:
                complaints.append(f"{subject.name}: there is no mutant {name!r}")
                continue
            result = results.of(subject, by_name[name])
            if result is not None and result.outcome != "survived":
                complaints.append(f"{subject.name}: {name!r} is {result.outcome} by {result.by}")
        return complaints


@dataclass(frozen=True)
class Score:
    """The figures of one module."""

    subject: Subject
    counts: Counter[str]
    survivors: tuple[tuple[Mutant, Result], ...]

    @property
    def tried(self) -> int:
        return self.counts.total()

    @property
    def value(self) -> float:
        """Killed, of those that are not explained."""
        judged = self.tried - self.counts["explained"]
        return sum(self.counts[kind] for kind in _DEAD) / judged if judged else 1.0


def score(
    subject: Subject, mutants: Iterable[Mutant], results: Results, explanations: Explanations
) -> Score:
    """Count what became of these mutants."""
    counts: Counter[str] = Counter()
    survivors = []
    for mutant in mutants:
        result = results.of(subject, mutant)
        if result is None:
            continue
        if result.outcome != "survived":
            counts[result.outcome] += 1
        elif explanations.why(mutant) is not None:
            counts["explained"] += 1
        else:
            counts["survived"] += 1
            survivors.append((mutant, result))
    return Score(subject, counts, tuple(survivors))


def report(scores: Iterable[Score]) -> str:
    """The table, then each survivor that nobody has explained, as a diff."""
    kinds = (*_DEAD, "survived", "explained")
    lines = [
        f"{'module':<34} {'mutants':>7} {'tried':>6} "
        + " ".join(f"{kind:>9}" for kind in kinds)
        + f" {'score':>7}"
    ]
    diffs = []
    for one in scores:
        lines.append(
            f"{one.subject.name:<34} {len(one.subject.mutants):>7} {one.tried:>6} "
            + " ".join(f"{one.counts[kind]:>9}" for kind in kinds)
            + f" {one.value:>7.1%}"
        )
        for mutant, result in one.survivors:
            note = f"  ({NOT_RUN})" if result.by == NOT_RUN else ""
            diffs.append(
                f"{mutant.id}{note}\n{mutant.name}\n"
                + mutant.diff(one.subject.source, one.subject.path)
            )
    return "\n".join([*lines, "", *diffs])
