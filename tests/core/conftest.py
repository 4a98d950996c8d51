"""Fixtures of the core's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sojourn import ManualClock, Purgatory, Timer
from tests.core.system_timer import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def purgatory(manual_clock: ManualClock) -> Purgatory:
    return Purgatory(clock=manual_clock)


@pytest.fixture
def timer() -> Iterator[Timer]:
    """On the system clock; closed after the test."""
    with Timer() as timer:
        yield timer


@pytest.fixture
def gate(timer: Timer) -> Iterator[Gate]:
    gate = Gate(timer)
    yield gate
    gate.open()


@pytest.fixture
def notes() -> list[str]:
    return []
