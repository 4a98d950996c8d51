"""The sweep over allocations finds what is broken."""

from __future__ import annotations

from tests.core.sweep import supervisor


def test_the_sweep_sees_what_is_torn_crashes_or_hangs() -> None:
    report = supervisor.sweep("tests.core.sweep.broken", patience_s=10)
    seen = {failure.case.subject: failure.kind for failure in report.failures}
    assert seen == {"Torn": "differs", "Crashing": "crash", "Hanging": "hang"}
    assert {failure.at for failure in report.failures} == {1}
    assert "_on_intrusion" in str(report)  # where it crashed and hung
