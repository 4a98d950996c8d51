"""The engines that a worker keeps: counted by what they hold, gone with their query."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.checkout import ROOT

pytest.importorskip("pyspark")

from sojourn.replay.progress import Progress
from sojourn.replay.schemas import REQUIREMENTS, SIGNALS, SUBMISSIONS
from sojourn.replay.string_hashes import hashes, shard_of
from sojourn.replay.waiting import Waiting
from sojourn.spark import contents, ledger
from sojourn.spark.ledger import Cache
from sojourn.spark.payload import pack_requirements
from sojourn.spark.reshard import cut, joined

COUNT = 20_000


def requirements() -> pa.RecordBatch:
    ids = pa.array([f"operation-{n}" for n in range(COUNT)])
    keys = pa.array([f"key-{n % 5000}" for n in range(COUNT)])
    numbers = np.arange(COUNT)
    index = np.zeros(COUNT, np.int32)
    columns = [ids, numbers, index, keys, numbers % 7, numbers, numbers + 10**6]
    return pa.record_batch(columns, schema=REQUIREMENTS)


def operations(payload: bytes = b"x" * 60) -> pa.RecordBatch:
    ids = pa.array([f"operation-{n}" for n in range(COUNT)])
    numbers = np.arange(COUNT)
    one = np.ones(COUNT, np.int32)
    columns = [ids, numbers, numbers, numbers + 10**6, one, one, pa.array([payload] * COUNT)]
    return pa.record_batch(columns, schema=SUBMISSIONS)


def filled(kind: Any) -> Any:
    engine = kind()
    if kind is Progress:
        engine.apply(requirements(), None, None)
    else:
        engine.apply(operations(), None, None, None)
    return engine


@pytest.mark.parametrize("kind", [Progress, Waiting])
def test_an_engine_counts_what_it_takes_in_memory(kind: Any) -> None:
    filled(kind)  # what is made once is not counted below
    tracemalloc.start()
    engine = filled(kind)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The wheel's slots are not NumPy's, and grow by less than what belongs to them.
    assert 0.8 * taken < engine.nbytes < 1.35 * taken
    assert engine.nbytes > 5 * len(engine.snapshot())  # which it was counted by


class Stub:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def snapshot(self) -> bytes:
        return b""

    def replay(self, entry: Any) -> None:
        raise NotImplementedError


def test_engines_are_kept_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_MOST_CACHED", 100)
    cache = Cache()
    for shard, size in enumerate((40, 40, 30)):
        cache.keep(("stream", "keys", shard), b"token", Stub(size))
    assert cache.nbytes == 70
    assert cache.take(("stream", "keys", 0)) == (b"", None)
    token, engine = cache.take(("stream", "keys", 2))
    assert (token, engine.nbytes, cache.nbytes) == (b"token", 30, 40)
    cache.keep(("stream", "keys", 3), b"token", Stub(1000))  # the one in use stays
    assert cache.nbytes == 1000


def test_the_engines_of_a_query_that_was_stopped_are_dropped() -> None:
    cache = Cache()
    for stream in ("stopped", "runs"):
        cache.see(stream, 0)
        cache.keep((stream, "keys", 0), b"token", Stub(10))
    cache.see("runs", 600)
    assert cache.nbytes == 20
    cache.see("runs", 601)
    assert cache.nbytes == 10
    assert cache.take(("runs", "keys", 0))[0] == b"token"


@pytest.mark.parametrize("kind", [Progress, Waiting])
def test_engines_cut_up_and_put_together_hold_what_they_held(kind: Any) -> None:
    whole = filled(kind)
    pieces = [[piece for _, piece in cut(kind, whole.snapshot(), shards)] for shards in (3, 1)]
    again = [piece for part in pieces[0] for _, piece in cut(kind, part, 5)]
    for snapshots in (pieces[0], pieces[1], again):
        engine = kind.restore(joined(kind, snapshots, 1000))
        assert len(engine) == len(whole)
        assert sorted(ends(engine)) == sorted(ends(filled(kind)))


def ends(engine: Any) -> list[Any]:
    """All that comes of an engine when time is up for half of it."""
    if isinstance(engine, Progress):
        signals = {"key": [f"key-{n}" for n in range(5000)], "offset": [3] * 5000}
        signals["at_ms"] = list(range(10**6, 10**6 + 5000))
        batch = pa.RecordBatch.from_pydict(signals)
        return [tuple(row.values()) for row in engine.apply(None, batch, None).to_pylist()]
    outcomes, _ = engine.apply(None, None, None, 10**6 + COUNT // 2)
    return [(row["id"], row["at_ms"], row["payload"]) for row in outcomes.to_pylist()]


def test_pieces_are_those_of_their_shard() -> None:
    for shard, piece in cut(Waiting, filled(Waiting).snapshot(), 4):
        ids = Waiting.restore(piece).pending().column("id")
        assert set(shard_of(hashes(ids), 4).tolist()) == {shard}


def test_the_memory_of_the_cluster_page_is_what_engines_take() -> None:
    """Its three lines, for operations that come and go with keys of their own."""
    text = ROOT.joinpath("docs", "spark-cluster.md").read_text(encoding="utf-8")
    waits, ended, idle = (int(n) for n in re.findall(r"^ *(\d+) bytes × ", text, re.MULTILINE))
    for steps, life_ms, kept_ms in ((10, 10**9, 10**9), (40, 8000, 16_000)):
        key_side = Progress(forget_keys_after_ms=kept_ms)
        id_side = Waiting(remember_ms=kept_ms)
        for step in range(steps):
            churn(key_side, id_side, step, life_ms)
        operations = len(id_side)
        said = waits * operations
        said += ended * (id_side.ids - operations) + idle * (key_side.keys - operations)
        assert 0.65 * said < key_side.nbytes + id_side.nbytes < 1.35 * said, (steps, said)


def churn(key_side: Progress, id_side: Waiting, step: int, life_ms: int) -> None:
    """A thousand operations, one a millisecond, each with two requirements on a key of its own."""
    count = 1000
    at_ms = np.arange(step * count, (step + 1) * count)
    twice = np.repeat(at_ms, 2)
    ids = pa.array([f"operation-{n:06}" for n in at_ms])
    keys = pa.array([f"payment/{n:08}" for n in twice])
    two, wanted = np.full(count, 2, np.int32), np.full(2 * count, 5)
    both = np.tile([0, 1], count).astype(np.int32)
    needs = [ids.take(pa.array(np.repeat(np.arange(count), 2))), twice, both, keys, wanted]
    signals = pa.record_batch([keys, np.ones(2 * count, np.int64), twice], schema=SIGNALS)
    required = pa.record_batch([*needs, twice, twice + life_ms], schema=REQUIREMENTS)
    now_ms = int(at_ms[-1])
    key_side.apply(required, signals, now_ms)
    payload = pack_requirements(keys, wanted, np.arange(0, 2 * count + 1, 2))
    rows = [ids, at_ms, at_ms, at_ms + life_ms, two, two, payload]
    id_side.apply(pa.record_batch(rows, schema=SUBMISSIONS), None, None, now_ms)


def test_what_is_known_of_an_id_and_of_a_key_can_be_looked_up() -> None:
    key_side, id_side = Progress(forget_keys_after_ms=1000), Waiting(remember_ms=1000)
    needs = [("a", 7, n, key, 5, 10, 90) for n, key in enumerate(("stock", "paid"))]
    rows = [dict(zip(REQUIREMENTS.names, need, strict=True)) for need in needs]
    news = [
        {"key": key, "offset": offset, "at_ms": at_ms}
        for key, offset, at_ms in (("paid", 2, 15), ("paid", 9, 60), ("stock", 5, 18))
    ]
    candidates = key_side.apply(
        pa.RecordBatch.from_pylist(rows, REQUIREMENTS),
        pa.RecordBatch.from_pylist(news, SIGNALS),
        20,
    )
    waits = [("a", 7, 10, 90, 2, 2, b""), ("gone", 8, 11, 12, 1, 1, b"")]
    held = [dict(zip(SUBMISSIONS.names, row, strict=True)) for row in waits]
    cancels = pa.RecordBatch.from_pylist([{"id": "a", "at_ms": 70}])
    id_side.apply(pa.RecordBatch.from_pylist(held, SUBMISSIONS), candidates, cancels, 20)
    of_keys, of_ids = [key_side.snapshot()], [id_side.snapshot()]
    assert contents.of_id("a", of_ids, of_keys) == {
        "id": "a",
        "operation": {
            "submitted_ms": 10,
            "deadline_ms": 90,
            "needed": 2,
            "requirements": 2,
            "met": [{"key": "stock", "at_ms": 18}, {"key": "paid", "at_ms": 60}],
            "open": [{"key": "paid", "offset": 5}],  # it may still be met earlier
        },
        "cancels_at_ms": [70],
        "remembered_until_ms": None,
    }
    gone = contents.of_id("gone", of_ids, of_keys)
    assert (gone["operation"], gone["remembered_until_ms"]) == (None, 1012)
    assert contents.of_key("paid", of_keys) == {
        "key": "paid",
        "reached": 2,
        "busy_ms": 60,
        "ahead": [{"offset": 9, "at_ms": 60}],
        "waiting": [{"id": "a", "offset": 5, "submitted_ms": 10, "deadline_ms": 90}],
    }
    assert contents.of_key("never", of_keys)["reached"] is None
