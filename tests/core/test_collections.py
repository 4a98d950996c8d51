"""The garbage collector may start at any allocation, and run any finaliser there."""

from __future__ import annotations

import sys

import pytest

import sojourn
from tests.core.sweep import supervisor


def test_a_finaliser_may_call_in_at_every_allocation_of_every_call() -> None:
    """In the thread that is being collected in, or from another while that thread waits."""
    report = supervisor.sweep("tests.core.sweep", patience_s=20)
    print(report)  # how many points, for `pytest -rP`
    if report.failures:
        pytest.fail(str(report))
    if sys.version_info < (3, 12):  # later, collections start in fewer places
        assert sum(report.points.values()) > (4_000 if sojourn.compiled else 20_000)
