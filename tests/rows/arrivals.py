"""The incremental engine as an engine: the rows of a trace come late and in disorder, in pieces.

Every row arrives at most DELAY_MS after its time. Whenever time has moved on the engine is advanced
to what can no longer change; now and then it is replaced by one restored from its snapshot.
"""

from __future__ import annotations

import json
import random
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from sojourn.replay import Engine
from tests.rows.oracle import Answer, Row

if TYPE_CHECKING:
    from tests.rows.traces import Trace

DELAY_MS = 80
LEAST, MOST = -(2**63), 2**63 - 1


def resolve(trace: Trace) -> Answer:
    rng = random.Random(trace.name)
    tables = dict(zip(("operations", "signals", "cancels"), trace.tables(), strict=True))
    arrivals = sorted(
        (_arrival_ms(rng, row, _TIME[name]), rng.random(), name, n)
        for name in tables
        for n, row in enumerate(getattr(trace, name))
    )
    last_ms = MOST if trace.until_ms is None else trace.until_ms
    engine = Engine(remember_ms=MOST)
    steps = []
    piece_ms = rng.choice((7, 60, 300)) * max(1, len(trace.operations) // 300)
    for _, piece in groupby(arrivals, key=lambda arrival: arrival[0] // piece_ms):
        came = list(piece)
        verbs = [engine.submit, engine.signal, engine.cancel]
        for name, verb in rng.sample(list(zip(tables, verbs, strict=True)), 3):
            numbers = [n for _, _, table, n in came if table == name]
            if numbers:
                verb(tables[name].take(pa.array(numbers)))
        sure_ms = came[-1][0] // piece_ms * piece_ms + piece_ms - 1 - DELAY_MS
        if sure_ms >= LEAST and sure_ms <= last_ms and rng.random() < 0.7:
            steps.append(engine.advance(sure_ms))
        if rng.random() < 0.2:
            engine = Engine.restore(engine.snapshot())
    steps.append(engine.advance(last_ms))
    rejected = pa.concat_tables([step.rejected for step in steps]).to_pylist()
    return Answer(
        [row for step in steps for row in step.outcomes.to_pylist()],
        engine.pending().to_pylist(),
        [(row["table"], row["reason"], json.loads(row["row"])) for row in rejected],
    )


_TIME = {"operations": "submitted_ms", "signals": "at_ms", "cancels": "at_ms"}


def _arrival_ms(rng: random.Random, row: Row, name: str) -> int:
    at_ms = row[name]
    if at_ms is None or not LEAST <= at_ms <= MOST:
        at_ms = 0  # it will be rejected, whenever it comes
    return int(at_ms) + rng.choice((0, rng.randint(0, DELAY_MS)))
