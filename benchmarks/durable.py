"""Durable waits, embedded, beside others that sync before they answer.

    python -m benchmarks.durable [--seconds 5] [--waiting 1000000] [--folder FOLDER] [--alone]

What a sync costs on this disk; how many submissions a second 64 submitters get through, threads or
tasks of an event loop, one at a time and in batches, and how long a call takes, here and with
Redis, beanstalkd and PostgreSQL where they are installed; what else an operation costs; how late
expiries are at 10,000 a second; how much an idle purgatory takes; how long it takes to start with
many operations waiting, and how much memory each of them takes. `--ended N` puts N ended
operations into the file before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import durable_servers
from sojourn import compiled, durable

SUBMITTERS = 64
SIZES = (1, 16, 30, 100)  # submissions in a call
_HOUR_MS = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.durable",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--folder", type=Path, help="where the file is; a disk, not /dev/shm")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--ended", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--alone", action="store_true", help="without other people's servers")
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        start(options.start)
        return
    print(f"{'compiled' if compiled else 'interpreted'}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sojourn-durable-") as name:
        folder = Path(name)
        sync_cost(folder / "sync")
        print(f"\ndurable submits, {SUBMITTERS} submitters, {options.seconds:g} s each")
        heading = "submissions in a call" + "".join(f"{size:>28}" for size in SIZES)
        print(heading)
        row("sojourn.durable, threads", [submits(folder, size, options) for size in SIZES])
        row("sojourn.durable, tasks", [task_submits(folder, size, options) for size in SIZES])
        for server_of in [] if options.alone else durable_servers.available():
            own = folder / server_of.__name__
            own.mkdir()
            with server_of(own) as server:  # type: ignore[attr-defined]
                results = [
                    durable_servers.run(server, SUBMITTERS, size, options.seconds) for size in SIZES
                ]
            row(server.name, results)
        print()
        outcomes(folder / "outcomes.db")
        lateness(folder / "lateness.db", options.seconds)
        idle(folder / "idle.db")
        if options.waiting:
            fill(folder / "start.db", options.waiting)


def row(name: str, results: list[tuple[int, float, list[float]]]) -> None:
    cells = [
        f"{count / took_s:>10,.0f}/s p99 {at(took_ms, 99):>7.1f} ms"
        for count, took_s, took_ms in results
    ]
    print(f"{name:<25}" + "  ".join(cells))


def sync_cost(path: Path, rounds: int = 200) -> None:
    """In a file that grows, and in one that does not, as a log that is used again."""
    for how in ("grows", "is written again"):
        file = os.open(path, os.O_CREAT | os.O_WRONLY)
        took_ms = []
        for _ in range(rounds):
            os.write(file, bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file)
            took_ms.append((time.perf_counter() - began) * 1000)
        os.close(file)
        p50, p99 = at(took_ms, 50), at(took_ms, 99)
        print(f"a sync of 4 kB where the file {how}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")


def submits(folder: Path, size: int, options: argparse.Namespace) -> tuple[int, float, list[float]]:
    with durable.Purgatory(folder / f"submits-{size}.db") as waits:
        end_some(waits, options.ended)

        def one(thread: int, n: int) -> None:
            waits.submit(f"order-{thread}-{n}", requirements(thread, n), _HOUR_MS)

        def many(thread: int, n: int) -> None:
            waits.submit_many(orders(thread, n * size, size))

        count, took_s, took_ms = run(one if size == 1 else many, options.seconds)
    return count * size, took_s, took_ms


def task_submits(
    folder: Path, size: int, options: argparse.Namespace
) -> tuple[int, float, list[float]]:
    """The same from the tasks of an event loop: two threads in all, this one and the writer's."""
    took_ms: list[float] = []

    async def client(waits: durable.AsyncPurgatory, task: int, until: float) -> None:
        first = 0
        while (began := time.perf_counter()) < until:
            if size == 1:
                await waits.submit(f"order-{task}-{first}", requirements(task, first), _HOUR_MS)
            else:
                await waits.submit_many(orders(task, first, size))
            took_ms.append((time.perf_counter() - began) * 1000)
            first += size

    async def clients() -> float:
        async with durable.AsyncPurgatory(
            durable.Purgatory(folder / f"task-submits-{size}.db")
        ) as waits:
            end_some(waits.purgatory, options.ended)
            began = time.perf_counter()
            until = began + options.seconds
            await asyncio.gather(*(client(waits, task, until) for task in range(SUBMITTERS)))
            return time.perf_counter() - began

    took_s = asyncio.run(clients())
    return len(took_ms) * size, took_s, took_ms


def orders(submitter: int, first: int, size: int) -> list[tuple[str, list[tuple[str, int]], int]]:
    return [
        (f"order-{submitter}-{n}", requirements(submitter, n), _HOUR_MS)
        for n in range(first, first + size)
    ]


def end_some(waits: durable.Purgatory, count: int) -> None:
    waits.signal("old", 1)
    for first in range(0, count, 10_000):
        waits.submit_many([(f"old-{n}", [("old", 1)], 0) for n in range(first, first + 10_000)])


def requirements(thread: int, n: int) -> list[tuple[str, int]]:
    """An order that has to be paid, and in stock."""
    return [(f"paid-{thread}-{n}", 1), (f"stock-{n % 1000}", n)]


def run(call: Callable[[int, int], None], seconds: float) -> tuple[int, float, list[float]]:
    """Let threads call; return how many calls there were, how long it took, and each of them."""
    until = time.perf_counter() + seconds
    took_ms: list[float] = []

    def client(thread: int) -> None:
        n = 0
        mine: list[float] = []
        while (began := time.perf_counter()) < until:
            call(thread, n)
            mine.append((time.perf_counter() - began) * 1000)
            n += 1
        took_ms.extend(mine)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(SUBMITTERS)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(took_ms), time.perf_counter() - began, took_ms


def outcomes(path: Path, count: int = 50_000) -> None:
    """What the other verbs take, from one thread: processor time, nobody waits for the disk."""
    with durable.Purgatory(path) as waits:
        rows = [(f"order-{n}", requirements(0, n), _HOUR_MS) for n in range(count)]

        def measure(what: str, action: Callable[[], Any]) -> None:
            began = time.process_time()
            action()
            took_us = (time.process_time() - began) / count * 1e6
            print(f"{what}: {took_us:.1f} µs of processor each")

        measure("submitted", lambda: waits.submit_many(rows))
        measure("submitted again", lambda: waits.submit_many(rows))
        measure(
            "signalled and completed",
            lambda: waits.signal_many(
                [(f"paid-0-{n}", 1) for n in range(count)]
                + [(f"stock-{n}", count) for n in range(1000)]
            ),
        )
        measure("outcome read", lambda: [waits.outcomes(n, 1000) for n in range(0, count, 1000)])


def lateness(path: Path, seconds: float, rate: int = 10_000) -> None:
    """How long after its deadline an expiry is told, with so many of them a second."""
    late_ms: list[float] = []
    with durable.Purgatory(path) as waits:
        count = int(rate * seconds)
        lead_ms = 2_000
        for first in range(0, count, 2_000):
            waits.submit_many(
                [
                    (f"{n}", [("never", 1)], lead_ms + n * 1000 // rate)
                    for n in range(first, min(first + 2_000, count))
                ]
            )

        def hear(news: durable.News) -> None:
            now_ms = waits._shell.now_ns() / 1e6  # finer than the millisecond of `now_ms`
            late_ms.extend(now_ms - outcome.deadline_ms for outcome in news.outcomes)

        waits.listen(hear)
        while len(waits):
            waits.outcomes(waits.last_outcome, wait_ms=1_000)
    print(
        f"expiries at about {rate:,}/s: told after the deadline p50 {at(late_ms, 50):.1f} ms, "
        f"p99 {at(late_ms, 99):.1f} ms"
    )


def idle(path: Path, seconds: float = 3.0) -> None:
    with durable.Purgatory(path) as waits:
        waits.submit_many([(f"{n}", [("never", 1)], _HOUR_MS) for n in range(10_000)])
        began = time.process_time()
        time.sleep(seconds)
        share = (time.process_time() - began) / seconds * 100
    print(f"idle, 10,000 waiting: {share:.2f} % of a processor")


def fill(path: Path, count: int) -> None:
    began, began_cpu = time.perf_counter(), time.process_time()
    with durable.Purgatory(path) as waits:
        for first in range(0, count, 50_000):
            waits.submit_many(
                (f"order-{n}", requirements(0, n), 7 * 24 * _HOUR_MS)
                for n in range(first, min(first + 50_000, count))
            )
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    print(
        f"one thread, in calls of 50,000: {count / took_s:,.0f} durable submits/s, "
        f"{cpu_s / count * 1e6:.1f} µs of processor each; "
        f"{path.stat().st_size / count:.0f} bytes in the file"
    )
    subprocess.run([sys.executable, "-m", "benchmarks.durable", "--start", str(path)], check=True)


def start(path: Path) -> None:
    """In a process of its own, for its memory."""
    before = resident_bytes()
    began, began_cpu = time.perf_counter(), time.process_time()
    with durable.Purgatory(path) as waits:
        took_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        count = len(waits)
        each = (resident_bytes() - before) / count
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(
            f"start with {count:,} waiting: {took_s:.2f} s, {cpu_s:.2f} s of processor; "
            f"{each:.0f} bytes of memory each, at most {peak / count:.0f} during the start"
        )


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def at(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
