"""Threads: run a loop over many rows in several threads, a part each."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_WORTH_A_THREAD = 50_000  # rows; below, starting a thread costs more than it saves


def in_parts(
    work: Callable[[int, int], Any],
    count: int,
    threads: int | None = None,
    least: int = _WORTH_A_THREAD,
) -> None:
    """Do the work for [0, count) in as many parts as there are threads.

    `threads`: one for each processor if not said. A part has at least `least` rows.
    """
    if threads is None:
        threads = os.cpu_count() or 1
    parts = max(1, min(threads, count // least))
    if parts == 1:
        work(0, count)
        return
    bounds = [count * n // parts for n in range(parts + 1)]
    with ThreadPoolExecutor(parts - 1, "sojourn-replay") as others:
        futures = [others.submit(work, *bounds[n : n + 2]) for n in range(1, parts)]
        work(*bounds[:2])
        for future in futures:
            future.result()
