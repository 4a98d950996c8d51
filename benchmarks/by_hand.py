"""What replay does by hand, beside the functions of Arrow and NumPy that would do it.

    python -m benchmarks.by_hand [--rows N] [--repeats N]

- Codes: small numbers for the keys of signals, and those of requirements looked up among them.
  Arrow has `dictionary_encode` and `index_in`, in C++.
- Steps: signals that came in no order. Ours are dealt out by key, and each key's are sorted. The
  others are put in the order of time first, all at once, by a sort of C++; then no key needs one.

Contenders take turns; medians of processor and wall time. The collector is left as it is.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.replay_sides import names
from benchmarks.stopwatch import Stopwatch
from sojourn.replay.codes import Codes
from sojourn.replay.steps import Steps

Contenders = dict[str, Callable[[], object]]


def by_codes(signalled: pa.Array, required: pa.Array) -> Contenders:
    def by_arrow() -> object:
        known = signalled.dictionary_encode()
        return pc.index_in(required, value_set=known.dictionary)

    return {
        "by hand, one thread": lambda: Codes(signalled).find(required, 1),
        "by hand": lambda: Codes(signalled).find(required),
        "Arrow": by_arrow,
    }


def by_steps(keys: pa.Array, offsets: Any, at_ms: Any) -> Contenders:
    def after(order_of: Callable[[], Any]) -> Callable[[], object]:
        def sorted_first() -> object:
            order = order_of()
            return Steps(keys.take(pa.array(order)), offsets[order], at_ms[order])

        return sorted_first

    return {
        "by hand, one thread": lambda: Steps(keys, offsets, at_ms, threads=1),
        "by hand": lambda: Steps(keys, offsets, at_ms),
        "NumPy, stable": after(lambda: np.argsort(at_ms, kind="stable")),
        "NumPy, unstable": after(lambda: np.argsort(at_ms)),
        "Arrow": after(lambda: np.asarray(pc.sort_indices(pa.array(at_ms)))),
    }


def compare(what: str, contenders: Contenders, repeats: int) -> None:
    """Print the medians of each, and how often the first goes into it."""
    rounds: dict[str, list[Stopwatch]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, work in contenders.items():
            watch = Stopwatch()
            with watch:
                work()
            rounds[name].append(watch)
    first_ns = 0.0
    for name, watches in rounds.items():
        wall_ns = statistics.median(watch.wall_ns for watch in watches)
        cpu_ns = statistics.median(watch.cpu_ns for watch in watches)
        first_ns = first_ns or cpu_ns
        print(
            f"{what:38} {name:20} wall {wall_ns / 1e6:7.0f} ms   processor {cpu_ns / 1e6:7.0f} ms"
            f"   {cpu_ns / first_ns:5.2f}x"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    rows, repeats = asked.rows, asked.repeats
    rng = np.random.default_rng(7)
    print(f"gc {gc.get_threshold()}, {rows:,} rows, medians of {repeats}")
    for distinct in (rows // 100, rows):
        signalled, required = (names("order-", rng.integers(0, distinct, rows)) for _ in range(2))
        compare(f"codes, {distinct:,} keys", by_codes(signalled, required), repeats)
    at_ms, offsets = rng.integers(0, 86_400_000, rows), rng.integers(0, 1000, rows)
    for distinct in (1, rows // 1000, rows // 10):
        keys = names("order-", rng.integers(0, distinct, rows))
        compare(f"steps, no order, {distinct:,} keys", by_steps(keys, offsets, at_ms), repeats)
    keys = names("order-", rng.integers(0, rows // 10, rows))
    compare("steps, in order", by_steps(keys, offsets, np.sort(at_ms)), repeats)


if __name__ == "__main__":
    main()
