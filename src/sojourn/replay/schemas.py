"""Schemas: the columns of every table that goes in, comes out, or passes between the two sides.

    OPERATIONS ─┬─▶ REQUIREMENTS ─▶ progress ─▶ CANDIDATES ─┐
                └─▶ SUBMISSIONS ────────────────────────────┴─▶ waiting ─▶ ENDED ─▶ OUTCOMES
    SIGNALS ──────────────────────▶ progress                       ▲
    CANCELS ───────────────────────────────────────────────────────┘

Rejected rows come out as REJECTED.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_text, _number, _small, _bytes = pa.string(), pa.int64(), pa.int32(), pa.binary()

REQUIRES = pa.list_(pa.struct([("key", _text), ("offset", _number)]))

# As users have them. Pending operations have the columns of operations, to be fed back.
OPERATIONS = _schema(
    id=_text, submitted_ms=_number, timeout_ms=_number, requires=REQUIRES, needed=_number
)
SIGNALS = _schema(key=_text, offset=_number, at_ms=_number)
CANCELS = _schema(id=_text, at_ms=_number)
OUTCOMES = _schema(
    id=_text,
    status=_text,
    at_ms=_number,
    by_key=_text,
    waited_ms=_number,
    condition_ms=_number,
    submitted_ms=_number,
    timeout_ms=_number,
)
# A stream does not wait to see when a condition holds that was too late.
STREAM_OUTCOMES = OUTCOMES.remove(OUTCOMES.get_field_index("condition_ms"))
REJECTED = _schema(table=_text, reason=_text, row=_text)

# Between the sides of the incremental engine. A tag tells operations of one id apart.
REQUIREMENTS = _schema(
    id=_text,
    tag=_number,
    index=_small,
    key=_text,
    offset=_number,
    submitted_ms=_number,
    deadline_ms=_number,
)
CANDIDATES = _schema(id=_text, tag=_number, index=_small, key=_text, moment_ms=_number)
SUBMISSIONS = _schema(
    id=_text,
    tag=_number,
    submitted_ms=_number,
    deadline_ms=_number,
    needed=_small,
    requirements=_small,
    payload=_bytes,
)
ENDED = pa.schema([OUTCOMES.field("id"), ("tag", _number), *list(STREAM_OUTCOMES)[1:]]).append(
    pa.field("payload", _bytes)
)


def _wide(schema: pa.Schema) -> pa.Schema:
    """The schema with text and bytes of any size."""
    large: dict[Any, Any] = {_text: pa.large_string(), _bytes: pa.large_binary()}
    return pa.schema([(field.name, large.get(field.type, field.type)) for field in schema])


# In snapshots. A key of the key side, and an operation of the id side, is the number of its row.
HELD_KEYS = _wide(_schema(key=_text, reached=_number, busy_ms=_number))
HELD_SIGNALS = SIGNALS.set(0, pa.field("key", _small))
HELD_REQUIREMENTS = _wide(REQUIREMENTS.set(3, pa.field("key", _small)))
HELD_OPERATIONS = _wide(SUBMISSIONS)
HELD_CELLS = _wide(_schema(operation=_small, index=_small, key=_text, moment_ms=_number))
HELD_CANCELS = _wide(CANCELS)
HELD_IDS = _wide(_schema(id=_text, until_ms=_number))
