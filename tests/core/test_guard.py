"""The guard: interpreted, an atomic step lets no other one in between its lines."""

from __future__ import annotations

from typing import Any

import pytest

import sojourn
from sojourn import DeadlineWheel, ManualClock, Timer, TimingWheel
from sojourn.core import operation, task
from sojourn.core.guard import GUARD
from sojourn.core.progress import Progress
from sojourn.core.residents import Residents
from sojourn.core.watchers import Watchers
from sojourn.errors import Reentered

pytestmark = pytest.mark.skipif(sojourn.compiled, reason="compiled, the GIL plays its part")

# Some of each: what is added to a list, taken from it, counted.
STEPS: list[tuple[Any, str]] = [
    *((task, name) for name in ("pop", "detach", "take_callback")),
    *((operation, name) for name in ("claim", "take_future")),
    *((TimingWheel, name) for name in ("_sj_place", "_sj_expire", "_sj_drain")),
    *((DeadlineWheel, name) for name in ("_sj_add", "_sj_cancel", "_sj_advance")),
    *((Timer, name) for name in ("_sj_place", "_sj_take_turns", "_sj_shut")),
    *((ManualClock, name) for name in ("_sj_move_to", "_sj_replace")),
    *(
        (Residents, name)
        for name in ("_sj_admit", "_sj_arm", "_sj_remove_ended", "_sj_remove_cancelled")
    ),
    *((Progress, name) for name in ("prepend", "swap")),
    (Watchers, "swap"),
]


@pytest.mark.parametrize(
    ("owner", "name"), STEPS, ids=[f"{owner.__name__}.{name}" for owner, name in STEPS]
)
def test_an_atomic_step_does_not_begin_inside_another(owner: Any, name: str) -> None:
    step = getattr(owner, name)
    with GUARD, pytest.raises(Reentered, match="a signal handler called into sojourn"):
        step()
