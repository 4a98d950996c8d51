"""One deadline over several futures: answer when all shards have, or with what there is.

python -m examples.delayed_futures
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sojourn import DelayedFuture, Purgatory


def main() -> None:
    with Purgatory("search") as purgatory, ThreadPoolExecutor(4) as pool:
        shards = [pool.submit(pow, shard, 2) for shard in (3, 4, 5)]
        in_time = DelayedFuture(shards, timeout_ms=500, on_done=merge).watch_in(purgatory)
        print(f"all in time: {in_time.result()}")

        repaired = threading.Event()
        shards = [pool.submit(pow, 3, 2), pool.submit(pow, 4, 2), pool.submit(repair, repaired)]
        search = DelayedFuture(shards, 100, merge)
        print(f"all in time: {search.watch_in(purgatory).result()}, late: {len(search.late)}")
        repaired.set()  # the late shard still runs, and answers whoever asks it later
        print(f"too late: {search.late[0].result()}")
    print(f"threads left: {threading.active_count() - 1}")


def merge(shards: list[Future[Any]]) -> None:
    """Called once, when every shard is done or the time is over; one that is late is not done."""
    print(f"merged {[shard.result() for shard in shards if shard.done()]}")


def repair(repaired: threading.Event) -> int:
    repaired.wait()
    return 25


if __name__ == "__main__":
    main()
