"""What small random programs are drawn from; they shrink."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.core.random_runs import UNIQUE, Step

OPERATIONS = 4
TIMEOUTS_MS = st.sampled_from([-1, 0, 1, 2, 19, 20, 21, 400])
TICKS_MS = st.sampled_from([1, 3, 20])
#: Steps with the number of an operation.
NUMBERED = st.tuples(
    st.sampled_from(["submit", "submit", "cancel", "force"]), st.integers(0, OPERATIONS - 1)
)
ADVANCES = st.tuples(st.just("advance"), st.sampled_from([0, 1, 2, 19, 20, 21, 400]))


def examples(count: int) -> settings:
    """However long each takes, and with nothing kept from run to run."""
    return settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        database=None,
    )


def reactions(draw: st.DrawFn, kind: str, steps: st.SearchStrategy[Step]) -> tuple[Step, ...]:
    """What an operation does once it is completed."""
    return tuple(draw(st.lists(steps, max_size=2))) if kind == UNIQUE else ()
