"""All outcomes of a run: look one up, or write them down."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks import conditions
from benchmarks.case import Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.case import Case


@dataclass
class Results:
    """What was measured, in the order it was planned."""

    quick: bool
    kafka: str
    load: float  # processes that were running before we began; above 0.5 the figures suffer
    outcomes: dict[tuple[str, str, str], Outcome] = field(default_factory=dict)

    def expect(self, case: Case) -> Outcome:
        return self.outcomes.setdefault(
            (case.workload, case.scenario, case.contender), Outcome(case)
        )

    def of(self, workload: str) -> list[Outcome]:
        return [found for found in self.outcomes.values() if found.case.workload == workload]

    def number(self, workload: str, scenario: str, contender: str, name: str) -> float | None:
        found = self.outcomes.get((workload, scenario, contender))
        return found.median(name) if found else None

    def machine(self) -> str:
        """Where and how it ran, in a line; both runtimes state their garbage collector."""
        runtimes = {found.text("runtime") for found in self.outcomes.values()} - {""}
        cores = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
        load = f"load before the run {self.load:.1f}"
        return "; ".join([cores, load, *sorted(runtimes), self.kafka])

    def write(self, path: Path, targets: list[dict[str, Any]]) -> None:
        path.write_text(
            json.dumps(
                {
                    "quick": self.quick,
                    "machine": self.machine(),
                    "targets": targets,
                    "outcomes": [_told(found) for found in self.outcomes.values()],
                },
                indent=1,
            )
        )


def _told(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    names = [name for name in (outcome.rows[0] if outcome.rows else {}) if name != "runtime"]
    return {
        "workload": case.workload,
        "scenario": case.scenario,
        "contender": case.contender,
        "conditions": conditions.of_contender(case.workload, case.contender),
        "skipped": outcome.skipped,
        "median": {name: outcome.median(name) for name in names},
        "spread": {name: outcome.spread(name) for name in names},
        "repeats": [{name: row[name] for name in names} for row in outcome.rows],
    }
