"""Times as people read them."""

from __future__ import annotations

import pytest

from sojourn.core.time_texts import moment_ms, moment_text


@pytest.mark.parametrize("ms", [0, 1, -1, 999, 1_767_700_800_001, 253_402_300_799_999])
def test_a_time_written_as_text_reads_as_the_same_time(ms: int) -> None:
    assert moment_ms(moment_text(ms)) == ms


def test_a_time_is_written_in_utc_to_the_millisecond_or_the_second() -> None:
    assert moment_text(1_767_700_800_001) == "2026-01-06T12:00:00.001Z"
    assert moment_text(1_767_700_800_999, "seconds") == "2026-01-06T12:00:00Z"


@pytest.mark.parametrize("ms", [253_402_300_800_000, 2**63 - 1, -(2**63)])
def test_a_time_that_no_calendar_has_is_a_number(ms: int) -> None:
    assert moment_text(ms) == f"{ms} ms"
