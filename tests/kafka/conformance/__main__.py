"""Record what real Kafkas answer, or print where we differ from what was recorded."""

from __future__ import annotations

import sys
import time

from tests.kafka.conformance import compare, recording, suite, table


def _record(versions: list[str], names: list[str]) -> None:
    for version in versions:
        start_s = time.monotonic()
        answers = suite.recorded_anew(version, names)
        if names:
            kept = [one for one in recording.read(version) if one.scenario not in names]
            answers = [*kept, *answers]
        recording.write(version, answers)
        print(f"{version}: {len(answers)} answers, {time.monotonic() - start_s:.0f} s", flush=True)


def _compare(versions: list[str], names: list[str]) -> None:
    rows = table.rows()
    ours = suite.our_answers(names)
    for version in versions:
        recorded = [one for one in recording.read(version) if not names or one.scenario in names]
        found = compare.differences(version, recorded, ours)
        new = [one for one in found if not any(row.covers(one) for row in rows)]
        for one in new:
            print(one)
        print(f"{version}: {len(recorded)} answers, {len(found)} differences, {len(new)} new")


if __name__ == "__main__":
    command, *rest = sys.argv[1:] or ["compare"]
    versions = [one for one in rest if one in recording.VERSIONS] or list(recording.VERSIONS)
    names = [one for one in rest if one not in recording.VERSIONS]
    {"record": _record, "compare": _compare}[command](versions, names)
