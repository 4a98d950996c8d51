"""One deadline over several futures: answer when all shards have, or with what there is.

python -m examples.delayed_futures
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sojourn import DelayedFuture, Purgatory


def merge(shards: list[Future[Any]]) -> None:
    """Called once, when every shard is done or failed: nobody waits longer."""
    found = [shard.result() for shard in shards if shard.exception() is None]
    failed = [type(error).__name__ for shard in shards if (error := shard.exception())]
    print(f"merged {found}, failed {failed}")


def main() -> None:
    with Purgatory("search") as purgatory, ThreadPoolExecutor() as pool:
        shards = [pool.submit(pow, shard, 2) for shard in (3, 4, 5)]
        in_time = DelayedFuture(shards, timeout_ms=500, on_done=merge).watch_in(purgatory)
        print(f"all in time: {in_time.result()}")

        answered: list[Future[Any]] = [pool.submit(pow, shard, 2) for shard in (3, 4)]
        silent: Future[Any] = Future()  # a shard that never answers
        in_time = DelayedFuture([*answered, silent], 100, merge).watch_in(purgatory)
        print(f"all in time: {in_time.result()}")
        print(f"the silent shard failed with: {type(silent.exception()).__name__}")
    print(f"threads left: {threading.active_count() - 1}")


if __name__ == "__main__":
    main()
