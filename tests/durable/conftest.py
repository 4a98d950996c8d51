"""Fixtures of several files: a durable purgatory on the `clock` that each file has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sojourn.durable import Purgatory
from tests.durable.world import connect_unsynced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sojourn import ManualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "waits.db"


@pytest.fixture
def open_waits(path: Path, clock: ManualClock) -> Iterator[Callable[..., Purgatory]]:
    """Opens the file, which was closed if it was open: a restart."""
    waits: list[Purgatory] = []

    def open_again(**options: Any) -> Purgatory:
        for old in waits:
            old.close()
        waits.append(Purgatory(path, **{"clock": clock, "connect": connect_unsynced, **options}))
        return waits[-1]

    yield open_again
    for old in waits:
        old.close()


@pytest.fixture
def waits(open_waits: Callable[..., Purgatory]) -> Purgatory:
    return open_waits()
