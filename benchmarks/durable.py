"""Durable waits, embedded: `python -m benchmarks.durable [--folder FOLDER] [--waiting 1000000]`.

What a sync costs on this disk; how many submissions a second 64 threads get through, one at a
time and in batches, and how long each call takes; how long it takes to start with many operations
waiting, and how much memory each of them takes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sojourn import compiled, durable

THREADS = 64
BATCH = 1_000
_HOUR_MS = 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.durable", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where the file is; a disk, not /dev/shm")
    parser.add_argument("--waiting", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        start(options.start)
        return
    print(f"{'compiled' if compiled else 'interpreted'}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="sojourn-durable-") as folder:
        sync_cost(Path(folder) / "sync")
        singles(Path(folder) / "singles.db", options.seconds)
        batches(Path(folder) / "batches.db", options.seconds)
        fill(Path(folder) / "start.db", options.waiting)


def sync_cost(path: Path, rounds: int = 100) -> None:
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    took_ms = []
    for _ in range(rounds):
        os.write(file, bytes(4096))
        started = time.perf_counter()
        os.fdatasync(file)
        took_ms.append((time.perf_counter() - started) * 1000)
    os.close(file)
    print(f"a sync of 4 kB: p50 {at(took_ms, 50):.2f} ms, p99 {at(took_ms, 99):.2f} ms")


def singles(path: Path, seconds: float) -> None:
    with durable.Purgatory(path) as waits:

        def call(thread: int, n: int) -> int:
            waits.submit(f"order-{thread}-{n}", requirements(thread, n), _HOUR_MS)
            return 1

        report("one at a time", *run(call, seconds))


def batches(path: Path, seconds: float) -> None:
    with durable.Purgatory(path) as waits:

        def call(thread: int, n: int) -> int:
            waits.submit_many(
                [
                    (f"order-{thread}-{n}-{m}", requirements(thread, n * BATCH + m), _HOUR_MS)
                    for m in range(BATCH)
                ]
            )
            return BATCH

        report(f"in batches of {BATCH}", *run(call, seconds))


def requirements(thread: int, n: int) -> list[tuple[str, int]]:
    """An order that has to be paid, and in stock."""
    return [(f"paid-{thread}-{n}", 1), (f"stock-{n % 1000}", n)]


def run(call: Callable[[int, int], int], seconds: float) -> tuple[int, float, float, list[float]]:
    until = time.perf_counter() + seconds
    counts: list[int] = []
    took_ms: list[float] = []

    def client(thread: int) -> None:
        count = n = 0
        mine: list[float] = []
        while (started := time.perf_counter()) < until:
            count += call(thread, n)
            mine.append((time.perf_counter() - started) * 1000)
            n += 1
        counts.append(count)
        took_ms.extend(mine)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(THREADS)]
    started, started_cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    return sum(counts), took_s, cpu_s, took_ms


def report(how: str, count: int, took_s: float, cpu_s: float, took_ms: list[float]) -> None:
    print(
        f"{THREADS} threads, {how}: {count / took_s:,.0f} durable submits/s, "
        f"{cpu_s / count * 1e6:.1f} µs of processor each; "
        f"a call p50 {at(took_ms, 50):.1f} ms, p99 {at(took_ms, 99):.1f} ms"
    )


def fill(path: Path, count: int) -> None:
    started, started_cpu = time.perf_counter(), time.process_time()
    with durable.Purgatory(path) as waits:
        for first in range(0, count, 50_000):
            rows = [
                (f"order-{n}", requirements(0, n), 7 * 24 * _HOUR_MS)
                for n in range(first, min(first + 50_000, count))
            ]
            waits.submit_many(rows)
    took_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    size = path.stat().st_size
    print(
        f"one thread, in batches of 50,000: {count / took_s:,.0f} durable submits/s, "
        f"{cpu_s / count * 1e6:.1f} µs of processor each; {size / count:.0f} bytes in the file"
    )
    subprocess.run([sys.executable, "-m", "benchmarks.durable", "--start", str(path)], check=True)


def start(path: Path) -> None:
    """In a process of its own, for its memory."""
    before = resident_bytes()
    started, started_cpu = time.perf_counter(), time.process_time()
    with durable.Purgatory(path) as waits:
        took_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
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
