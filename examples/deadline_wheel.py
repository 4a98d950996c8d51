"""Very many timers at once: a million leases, renewed and expired in bulk, by number.

python -m examples.deadline_wheel
"""

from __future__ import annotations

from array import array
from time import perf_counter

from sojourn import DeadlineWheel, compiled


def main() -> None:
    leases = 1_000_000 if compiled else 20_000
    wheel = DeadlineWheel()

    began = perf_counter()
    handles = wheel.add_many(array("q", (1_000 + n % 5_000 for n in range(leases))))
    print(f"added {leases:,} leases in {perf_counter() - began:.2f} s: {wheel}")

    # Nine in ten are given back in time. Each comes back by its handle; no search, no callback.
    began = perf_counter()
    given_back = wheel.cancel_many(array("q", (h for n, h in enumerate(handles) if n % 10)))
    print(f"took out {given_back:,} in {perf_counter() - began:.2f} s: {wheel}")

    print(f"the next bucket expires at {wheel.next_expiration_ms} ms")
    for now_ms in (999, 3_500, 6_000):
        print(f"at {now_ms:,} ms: {len(wheel.advance(now_ms)):,} leases ran out")
    print(f"left: {len(wheel)}")


if __name__ == "__main__":
    main()
