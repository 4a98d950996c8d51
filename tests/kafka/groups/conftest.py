"""Groups on a clock that is moved by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kafka.group_world import World


@pytest.fixture
def world() -> World:
    from tests.kafka.group_world import World

    return World()
