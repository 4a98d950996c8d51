"""Both sides of the incremental engine in their simplest form: dictionaries, gone through whole."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sojourn.replay.schemas import CANDIDATES, ENDED, SUBMISSIONS

_NEVER = -(2**63)
_MOST = 2**63 - 1


class NaiveProgress:
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


class NaiveWaiting:
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
            pa.RecordBatch.from_pylist(outcomes, ENDED),
            pa.RecordBatch.from_pylist(rejected, SUBMISSIONS),
        )

    def pending(self) -> pa.RecordBatch:
        """Return the operations that wait, as they were given."""
        return pa.RecordBatch.from_pylist(list(self._held.values()), SUBMISSIONS)

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
                    "submitted_ms": row["submitted_ms"],
                    "timeout_ms": row["deadline_ms"] - row["submitted_ms"],
                    "payload": row["payload"],
                }
            )
            self._ended[id] = min(at + self._remember_ms, _MOST)
        self._ended = {id: until for id, until in self._ended.items() if until > now_ms}
        cancels = {id: [at for at in ats if at > now_ms] for id, ats in self._cancels.items()}
        self._cancels = {id: ats for id, ats in cancels.items() if ats}
        return sorted(out, key=lambda row: row["at_ms"])
