"""Wait for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: How long tests wait for what should come at once: the machine may be busy.
PATIENCE_S = 60.0
_PAUSE_S_MAX = 0.02


def until(
    condition: Callable[[], T | None],
    what: str | Callable[[], str] = "the condition",
    timeout_s: float = PATIENCE_S,
) -> T:
    """Ask until the condition holds, and return what it returned; fail if it never does.

    `what` is waited for; a function is called only if the time runs out.
    """
    give_up_s = time.monotonic() + timeout_s
    pause_s = 0.0005
    while not (value := condition()):
        if time.monotonic() > give_up_s:
            raise AssertionError(
                f"waited {timeout_s} s for {what if isinstance(what, str) else what()}"
            )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
    return value
