"""Rows as bytes, and the numbers by which keys and ids find their shard."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sojourn.replay.string_hashes import hashes, shard_of
from sojourn.spark.payload import PayloadFormat, pack_requirements

EVERYTHING = pa.table(
    {
        "number": pa.array([1, None, -3], pa.int64()),
        "small": pa.array([1, None, -3], pa.int8()),
        "text": ["x", None, ""],
        "flag": [True, None, False],
        "day": [dt.date(2020, 1, 1), None, dt.date(1960, 1, 1)],
        "moment": pa.array(
            [dt.datetime(2020, 1, 1), None, dt.datetime(1960, 1, 1)], pa.timestamp("us", "UTC")
        ),
        "money": pa.array([Decimal("1.5"), None, Decimal("-2.5")], pa.decimal128(10, 1)),
        "list": pa.array([[1, 2], None, []], pa.list_(pa.int64())),
        "struct": [{"q": "z"}, None, {"q": None}],
        "bytes": [b"\0", None, b"ab"],
        "share": [1.5, None, -0.0],
        "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
        "nothing": pa.nulls(3, pa.string()),
        "void": pa.nulls(3),
        "deep": pa.array(
            [[{"names": ["a", None, "é" * 40], "by": [("k", [1])]}, None], None, []],
            pa.list_(
                pa.struct(
                    [
                        ("names", pa.list_(pa.string())),
                        ("by", pa.map_(pa.string(), pa.list_(pa.int16()))),
                    ]
                )
            ),
        ),
        "hollow": pa.array([{}, None, {}], pa.struct([])),
        "voids": pa.array([[None, None], None, []], pa.list_(pa.null())),
    }
)
# Written by an earlier version, which pickled structs, lists and maps; and the rows that they hold.
PICKLED = Path(__file__).with_name("pickled-payloads.arrow")
KEYS = pa.array(["k", "é", "", "k" * 40])
REQUIRED = [
    [{"key": "k", "offset": 5}, {"key": "é", "offset": 6}],
    [{"key": "", "offset": -7}],
    [{"key": "k" * 40, "offset": 2**63 - 1}],
]


def packed() -> pa.Array:
    offsets = np.array([5, 6, -7, 2**63 - 1])
    return pack_requirements(KEYS, offsets, np.array([0, 2, 3, 4]))


def test_values_of_every_type_come_back() -> None:
    form = PayloadFormat(EVERYTHING.schema)
    payloads = form.encode(EVERYTHING, packed())
    assert form.decode(payloads).equals(EVERYTHING)
    assert form.requirements(payloads) == REQUIRED


def test_no_value_is_pickled() -> None:
    payloads = PayloadFormat(EVERYTHING.schema).encode(EVERYTHING, packed())
    for payload in payloads.to_pylist():
        assert b"\x80\x04\x95" not in payload


def test_payloads_with_pickles_in_them_are_read_beside_others() -> None:
    with pa.ipc.open_file(PICKLED) as file:
        written = file.read_all()
    expected = written.drop_columns("payload")
    form = PayloadFormat(expected.schema)
    pickled = written["payload"].combine_chunks()
    assert b"\x80\x04\x95" in pickled[0].as_py()
    assert form.decode(pickled).equals(expected)
    requirements = [[{"key": key, "offset": n}] for n, key in enumerate(("k", "k", "é"), 1)]
    assert form.requirements(pickled) == requirements
    now = form.encode(expected, packed())
    assert form.decode(now).equals(expected)
    mixed = pa.concat_arrays([now, pickled, now.slice(1)])
    assert form.decode(mixed).equals(pa.concat_tables([expected, expected, expected.slice(1)]))


def test_a_pickle_that_would_run_something_is_not_read() -> None:
    class Bad:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return exec, ("raise SystemExit",)

    form = PayloadFormat(pa.schema([("list", pa.list_(pa.int64()))]))
    payload = bytes(1) + (len(bad := pickle.dumps(Bad()))).to_bytes(4, "little") + bad
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.exec is no part of a value"):
        form.decode(pa.array([payload], pa.binary()))


def test_a_slice_of_payloads_can_be_read() -> None:
    form = PayloadFormat(EVERYTHING.schema)
    payloads = form.encode(EVERYTHING.slice(0), packed()).slice(1, 1)
    assert form.decode(payloads).equals(EVERYTHING.slice(1, 1))
    assert form.requirements(payloads) == REQUIRED[1:2]


def test_slices_of_columns_can_be_written() -> None:
    form = PayloadFormat(EVERYTHING.schema)
    payloads = form.encode(EVERYTHING.slice(1), packed().slice(1))
    assert form.decode(payloads).equals(EVERYTHING.slice(1))


def test_rows_without_extra_columns_carry_their_requirements() -> None:
    form = PayloadFormat(pa.schema([]))
    payloads = form.encode(EVERYTHING.select([]), packed())
    assert form.requirements(payloads) == REQUIRED


def test_no_rows_at_all() -> None:
    form = PayloadFormat(EVERYTHING.schema)
    nothing = EVERYTHING.slice(0, 0)
    none = pack_requirements(KEYS.slice(0, 0), np.zeros(0, np.int64), np.zeros(1, np.int64))
    assert form.decode(form.encode(nothing, none)).equals(nothing)


def test_hashes_are_for_ever() -> None:
    """Checkpoints depend on them: a change makes every one of them useless."""
    texts = pa.array(["", "a", "a\0", "abcdefgh", "abcdefghi", "é" * 50])
    assert hashes(texts).tolist() == [
        5197578548964807871,
        4490210150949542640,
        7850561713998068440,
        8679855946413563446,
        6643350042676732447,
        1256505597406969020,
    ]
    assert (hashes(texts.cast(pa.large_string())) == hashes(texts)).all()
    assert (hashes(texts.slice(2)) == hashes(texts)[2:]).all()


def test_keys_that_differ_little_are_spread_evenly() -> None:
    found = hashes(pa.array([f"order-{n}" for n in range(20_000)]))
    assert len(np.unique(found)) == 20_000
    counts = np.bincount(shard_of(found, 32), minlength=32)
    assert counts.min() > 500
    assert counts.max() < 750
