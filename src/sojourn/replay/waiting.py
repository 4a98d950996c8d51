"""Waiting: the id side of the incremental engine, which operations wait and how each ends."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sojourn.errors import OutOfRange
from sojourn.replay import journal
from sojourn.replay.progress import CANDIDATES

OPERATIONS = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("submitted_ms", pa.int64()),
        ("deadline_ms", pa.int64()),
        ("needed", pa.int32()),
        ("requirements", pa.int32()),
        ("payload", pa.binary()),
    ]
)
CANCELS = pa.schema([("id", pa.string()), ("at_ms", pa.int64())])
OUTCOMES = pa.schema(
    [
        ("id", pa.string()),
        ("tag", pa.int64()),
        ("status", pa.string()),
        ("at_ms", pa.int64()),
        ("by_key", pa.string()),
        ("waited_ms", pa.int64()),
        ("payload", pa.binary()),
    ]
)
_ENDED = pa.schema([("id", pa.string()), ("until_ms", pa.int64())])
_ENTRY = "Went"
_SNAPSHOT = "Wsnp"
_MOST = 2**63 - 1


class Waiting:
    """The operations that wait. Rows are applied first, then time moves to `now_ms`.

    Rows must be checked already, and none at or before the time it stands at. `now_ms=None` leaves
    the time where it is. An id that ended is remembered for `remember_ms` of event time: an
    operation submitted until then under the same id is a duplicate.
    """

    def __init__(self, *, remember_ms: int = 86_400_000) -> None:
        self._remember_ms = remember_ms
        self._now_ms: int | None = None
        self._held: dict[str, dict[str, Any]] = {}
        self._moments: dict[str, dict[int, tuple[int, str]]] = {}
        self._cancels: dict[str, list[int]] = {}
        self._ended: dict[str, int] = {}

    @property
    def now_ms(self) -> int | None:
        """The time it stands at; None before the first."""
        return self._now_ms

    @property
    def next_ms(self) -> int | None:
        """Nothing ends before this time, unless rows arrive; None when nothing waits."""
        return min((self._end(id)[1] for id in self._held), default=None)

    def __len__(self) -> int:
        return len(self._held)

    def apply(
        self,
        operations: pa.RecordBatch | None,
        candidates: pa.RecordBatch | None,
        cancels: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Take the rows in, move time to `now_ms`; return what ended, and duplicates (rejected).

        Outcomes come in the order of their time.
        """
        if now_ms is not None and self._now_ms is not None and now_ms < self._now_ms:
            raise OutOfRange(
                f"now_ms must be ≥ {self._now_ms}, got {now_ms}; time does not go back"
            )
        rejected = []
        for row in operations.to_pylist() if operations is not None else []:
            held = self._held.get(row["id"])
            if self._ended.get(row["id"], -_MOST - 1) >= row["submitted_ms"] and (
                row["id"] in self._ended
            ):
                rejected.append(row)
                continue
            if held is not None:
                if held["submitted_ms"] <= row["submitted_ms"]:
                    rejected.append(row)
                    continue
                rejected.append(held)
            self._held[row["id"]] = row
            self._moments[row["id"]] = {}
        for row in candidates.to_pylist() if candidates is not None else []:
            held = self._held.get(row["id"])
            if held is not None and held["tag"] == row["tag"]:
                moments = self._moments[row["id"]]
                if row["index"] not in moments or moments[row["index"]][0] > row["moment_ms"]:
                    moments[row["index"]] = (row["moment_ms"], row["key"])
        for row in cancels.to_pylist() if cancels is not None else []:
            self._cancels.setdefault(row["id"], []).append(row["at_ms"])
        outcomes = self._advance(now_ms) if now_ms is not None else []
        return (
            pa.RecordBatch.from_pylist(outcomes, OUTCOMES),
            pa.RecordBatch.from_pylist(rejected, OPERATIONS),
        )

    def pending(self) -> pa.RecordBatch:
        """Return the operations that wait, as they were given."""
        return pa.RecordBatch.from_pylist(list(self._held.values()), OPERATIONS)

    def snapshot(self) -> bytes:
        """Return all of the state as bytes, for `restore`."""
        candidates = [
            {
                "id": id,
                "tag": self._held[id]["tag"],
                "index": index,
                "key": key,
                "moment_ms": moment,
            }
            for id, moments in self._moments.items()
            for index, (moment, key) in moments.items()
        ]
        cancels = [{"id": id, "at_ms": at} for id, ats in self._cancels.items() for at in ats]
        ended = [{"id": id, "until_ms": until} for id, until in self._ended.items()]
        numbers = [int(self._now_ms is not None), self._now_ms or 0, self._remember_ms]
        return journal.pack(
            _SNAPSHOT,
            numbers,
            [
                self.pending(),
                pa.RecordBatch.from_pylist(candidates, CANDIDATES),
                pa.RecordBatch.from_pylist(cancels, CANCELS),
                pa.RecordBatch.from_pylist(ended, _ENDED),
            ],
        )

    @classmethod
    def restore(cls, data: Any) -> Waiting:
        """Return one that goes on for ever as the one that gave the snapshot would."""
        numbers, batches = journal.unpack(
            _SNAPSHOT, data, [OPERATIONS, CANDIDATES, CANCELS, _ENDED]
        )
        self = cls(remember_ms=numbers[2])
        self.apply(batches[0], batches[1], batches[2], None)
        self._ended = {row["id"]: row["until_ms"] for row in batches[3].to_pylist()}
        self._now_ms = numbers[1] if numbers[0] else None
        return self

    @staticmethod
    def entry(
        operations: pa.RecordBatch | None,
        candidates: pa.RecordBatch | None,
        cancels: pa.RecordBatch | None,
        now_ms: int | None,
    ) -> bytes:
        """Return what `apply` is given as bytes, for `replay`."""
        return journal.pack(
            _ENTRY, [int(now_ms is not None), now_ms or 0], [operations, candidates, cancels]
        )

    def replay(self, entry: Any) -> None:
        """Apply what the entry holds, leaving out what would come of it."""
        numbers, batches = journal.unpack(_ENTRY, entry, [OPERATIONS, CANDIDATES, CANCELS])
        self.apply(batches[0], batches[1], batches[2], numbers[1] if numbers[0] else None)

    def _end(self, id: str) -> tuple[str, int, str | None]:
        row = self._held[id]
        moments = sorted(self._moments[id].values())
        deadline = row["deadline_ms"]
        cancels = [at for at in self._cancels.get(id, []) if at >= row["submitted_ms"]]
        cancelled = min(cancels, default=None)
        held = moments[row["needed"] - 1][0] if len(moments) >= row["needed"] else None
        if cancelled is not None and cancelled <= deadline and (held is None or cancelled < held):
            return "cancelled", cancelled, None
        if held is not None and held <= deadline:
            return "completed", held, min(key for moment, key in moments if moment == held)
        return "expired", deadline, None

    def _advance(self, now_ms: int) -> list[dict[str, Any]]:
        self._now_ms = now_ms
        out = []
        for id in list(self._held):
            status, at, by = self._end(id)
            if at > now_ms:
                continue
            row = self._held.pop(id)
            del self._moments[id]
            out.append(
                {
                    "id": id,
                    "tag": row["tag"],
                    "status": status,
                    "at_ms": at,
                    "by_key": by,
                    "waited_ms": at - row["submitted_ms"],
                    "payload": row["payload"],
                }
            )
            self._ended[id] = min(at + self._remember_ms, _MOST)
        self._ended = {id: until for id, until in self._ended.items() if until > now_ms}
        cancels = {id: [at for at in ats if at > now_ms] for id, ats in self._cancels.items()}
        self._cancels = {id: ats for id, ats in cancels.items() if ats}
        return sorted(out, key=lambda row: row["at_ms"])
