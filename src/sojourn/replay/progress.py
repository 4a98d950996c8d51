"""Progress: the key side of the incremental engine, from when each requirement holds.

A requirement waits on one key for an offset. Its moment is max(submitted_ms, the first at_ms that
brought the key to the offset). A moment that is known can still improve, when an earlier signal
arrives late; so what comes out are candidates, of which the least counts.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sojourn.errors import OutOfRange
from sojourn.replay import journal

REQUIREMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("offset", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
    ]
)
SIGNALS = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("at_ms", pa.int64())])
CANDIDATES = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("index", pa.int32()),
        ("key", pa.string()),
        ("moment_ms", pa.int64()),
    ]
)
_ENTRY = "Pent"
_SNAPSHOT = "Psnp"
_NEVER = -(2**63)


class Progress:
    """What is known of each key, and who waits for it.

    Rows are applied first, then time moves to `now_ms`; rows must be checked already, and none at
    or before the time it stands at. `now_ms=None` leaves the time where it is.
    """

    def __init__(self, *, forget_keys_after_ms: int | None = None) -> None:
        self._forget_ms = forget_keys_after_ms
        self._now_ms: int | None = None
        self._signals: dict[str, list[tuple[int, int]]] = {}  # (at, offset)
        self._base: dict[str, int] = {}
        self._open: dict[str, list[tuple[Any, ...]]] = {}

    @property
    def now_ms(self) -> int | None:
        """The time it stands at; None before the first."""
        return self._now_ms

    def apply(
        self,
        requirements: pa.RecordBatch | None,
        signals: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> pa.RecordBatch:
        """Take the rows in, move time to `now_ms`, return what candidates there are now."""
        if now_ms is not None and self._now_ms is not None and now_ms < self._now_ms:
            raise OutOfRange(
                f"now_ms must be ≥ {self._now_ms}, got {now_ms}; time does not go back"
            )
        out: list[tuple[Any, ...]] = []
        touched: dict[str, list[tuple[int, int]]] = {}
        for row in signals.to_pylist() if signals is not None else []:
            touched.setdefault(row["key"], list(self._signals.get(row["key"], [])))
            self._signals.setdefault(row["key"], []).append((row["at_ms"], row["offset"]))
        for key, before in touched.items():
            for need in self._open.get(key, []):
                old = self._moment(before, key, need)
                new = self._moment(self._signals[key], key, need)
                if new is not None and (old is None or new < old) and new <= need[6]:
                    out.append((*need[:4], new))
        for row in requirements.to_pylist() if requirements is not None else []:
            need = tuple(row.values())
            moment = self._moment(self._signals.get(need[3], []), need[3], need)
            if moment is not None and moment <= need[6]:
                out.append((*need[:4], moment))
            self._open.setdefault(need[3], []).append(need)
        if now_ms is not None:
            self._advance(now_ms)
        columns = zip(*out, strict=True) if out else [()] * len(CANDIDATES)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, CANDIDATES, strict=True)]
        return pa.record_batch(arrays, schema=CANDIDATES)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        base = pa.RecordBatch.from_pylist(
            [{"key": k, "offset": o, "at_ms": _NEVER} for k, o in self._base.items()], SIGNALS
        )
        signals = pa.RecordBatch.from_pylist(
            [
                {"key": k, "offset": o, "at_ms": at}
                for k, known in self._signals.items()
                for at, o in known
            ],
            SIGNALS,
        )
        rows = [
            dict(zip(REQUIREMENTS.names, need, strict=True))
            for needs in self._open.values()
            for need in needs
        ]
        requirements = pa.RecordBatch.from_pylist(rows, REQUIREMENTS)
        numbers = [
            int(self._now_ms is not None),
            self._now_ms or 0,
            -1 if self._forget_ms is None else self._forget_ms,
        ]
        return journal.pack(_SNAPSHOT, numbers, [base, signals, requirements])

    @classmethod
    def restore(cls, data: Any) -> Progress:
        """Return one that goes on for ever as the one that gave the snapshot would."""
        numbers, batches = journal.unpack(_SNAPSHOT, data, [SIGNALS, SIGNALS, REQUIREMENTS])
        self = cls(forget_keys_after_ms=None if numbers[2] < 0 else numbers[2])
        self._now_ms = numbers[1] if numbers[0] else None
        base, signals, requirements = batches
        self._base = {row["key"]: row["offset"] for row in base.to_pylist()}
        for row in signals.to_pylist():
            self._signals.setdefault(row["key"], []).append((row["at_ms"], row["offset"]))
        for row in requirements.to_pylist():
            self._open.setdefault(row["key"], []).append(tuple(row.values()))
        return self

    @staticmethod
    def entry(
        requirements: pa.RecordBatch | None, signals: pa.RecordBatch | None, now_ms: int | None
    ) -> bytes:
        """Return what `apply` is given as bytes, for `replay`."""
        return journal.pack(_ENTRY, [int(now_ms is not None), now_ms or 0], [requirements, signals])

    def replay(self, entry: Any) -> None:
        """Apply what the entry holds, leaving out what would come of it."""
        numbers, batches = journal.unpack(_ENTRY, entry, [REQUIREMENTS, SIGNALS])
        self.apply(batches[0], batches[1], numbers[1] if numbers[0] else None)

    def _moment(self, known: list[tuple[int, int]], key: str, need: tuple[Any, ...]) -> int | None:
        if key in self._base and self._base[key] >= need[4]:
            return int(need[5])
        times = [at for at, offset in known if offset >= need[4]]
        return max(need[5], min(times)) if times else None

    def _advance(self, now_ms: int) -> None:
        self._now_ms = now_ms
        for key in list(self._signals):
            past = [offset for at, offset in self._signals[key] if at <= now_ms]
            if past:
                self._base[key] = max([*past, self._base.get(key, _NEVER)])
            self._signals[key] = [s for s in self._signals[key] if s[0] > now_ms]
            if not self._signals[key]:
                del self._signals[key]
        for key in list(self._open):
            base = self._base.get(key)
            kept = [
                need
                for need in self._open[key]
                if need[6] > now_ms and (base is None or base < need[4])
            ]
            if kept:
                self._open[key] = kept
            else:
                del self._open[key]
