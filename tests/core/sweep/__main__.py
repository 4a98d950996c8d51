"""The sweep's own process: performs points and says which it is at, so that its death can tell.

    python -m tests.core.sweep MODULE PROGRESS CASE POINT
    python -m tests.core.sweep

The second runs all of it, on the build that SOJOURN_PURE chooses, and prints a report.

MODULE has the cases. Each line on standard output is a case: its number, how many points it had,
and the failures. The file PROGRESS always says at which case and point it is. It begins at CASE
and POINT.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import sys
import warnings
from importlib import import_module

from tests.core.sweep import supervisor
from tests.core.sweep.cases import Sweep, allowed, difference

_ENOUGH = 20  # failures, to know that a case fails


def main(module: str, progress: str, first_case: int, first_point: int) -> None:
    faulthandler.enable()
    logging.getLogger("sojourn").disabled = True
    warnings.simplefilter("ignore")
    file = os.open(progress, os.O_WRONLY | os.O_CREAT, 0o600)
    sweep = Sweep()
    for number, case in enumerate(import_module(module).all_cases()):
        if number < first_case:
            continue
        outcomes = allowed(case)
        failures: list[tuple[int, str]] = []
        at = first_point if number == first_case else 1
        while True:
            os.pwrite(file, b"%8d %8d" % (number, at), 0)
            outcome, reached = sweep.point(case, at)
            if isinstance(outcome, str):
                failures.append((at, outcome))
            elif outcome not in outcomes:
                failures.append((at, difference(outcome, outcomes)[:500]))
            if not reached or len(failures) == _ENOUGH:
                break
            at += 1
        print(json.dumps([number, at - 1, failures]), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        print(supervisor.sweep("tests.core.sweep", patience_s=10))
