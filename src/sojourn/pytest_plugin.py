"""Fixtures for tests of code that waits; pytest finds them wherever sojourn is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from sojourn.clock import ManualClock


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that moves only when told to: `manual_clock.advance(50)` runs what falls due."""
    from sojourn.clock import ManualClock

    return ManualClock()
