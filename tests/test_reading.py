"""One reading rule: in process and on Spark, every format has the same rows, good and bad.

Each case writes one table as people have it. Spark reads all of them in one job.
"""

from __future__ import annotations

import bz2
import csv
import datetime
import functools
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sojourn import replay
from sojourn.cli.entry import _gist
from sojourn.errors import BadFile, NoSuchFile, SojournError
from sojourn.replay import files, rows, schemas
from sojourn.replay.columns import Columns, operation_columns, signal_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = dict[str, Any]
Write = Callable[[Path], "str | Path"]

NOON_MS = 1_767_614_400_000
GOOD = [{"key": f"paid/{n}", "offset": n % 3, "at_ms": NOON_MS + n} for n in range(20)]
BAD: list[Row] = [
    {"key": None, "offset": 1, "at_ms": NOON_MS},
    {"key": "k", "offset": None, "at_ms": NOON_MS},
    {"key": "k", "offset": 1, "at_ms": None},
]
SIGNALS = pa.Table.from_pylist(GOOD + BAD)


def stamped(unit: str, zone: str | None) -> pa.Table:
    stamps = SIGNALS["at_ms"].cast(pa.timestamp("ms", zone)).cast(pa.timestamp(unit, zone))
    return SIGNALS.set_column(2, "at_ms", stamps)


def parquet(path: Path, table: pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def lines(table: pa.Table, *more: str) -> bytes:
    texts = [json.dumps(row, default=str) for row in table.to_pylist()]
    return ("\n".join([*texts, *more]) + "\n").encode()


def comma_separated(table: pa.Table, delimiter: str = ",", *more: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        values = (json.dumps(v) if isinstance(v, list) else v for v in row.values())
        writer.writerow("" if v is None else v for v in values)
    return (text.getvalue() + "".join(f"{line}\n" for line in more)).encode()


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def several(folder: Path) -> Path:
    """Parquet beside JSON beside CSV; text with times, numbers with timestamps."""
    parquet(folder / "a.parquet", SIGNALS.slice(0, 8))
    put(folder / "more" / "b.json", lines(stamped("us", "UTC").slice(8, 8)))
    put(folder / "more" / "c.csv", comma_separated(SIGNALS.slice(16)))
    parquet(folder / "d.parquet", stamped("us", "UTC").slice(0, 0))
    put(folder / "_SUCCESS", b"")
    put(folder / ".b.json.crc", b"crc")
    return folder


def cut_in_groups(folder: Path) -> Path:
    return parquet(folder / "s.parquet", SIGNALS, row_group_size=3)


def delta(folder: Path) -> Path:
    deltalake = pytest.importorskip("deltalake")
    # What was overwritten is still in the folder, and no longer in the table.
    deltalake.write_deltalake(str(folder / "t"), SIGNALS.slice(0, 5))
    deltalake.write_deltalake(str(folder / "t"), SIGNALS, mode="overwrite")
    return folder / "t"


def iceberg(folder: Path) -> Path:
    pytest.importorskip("pyiceberg")
    memory = pytest.importorskip("pyiceberg.catalog.memory", exc_type=ImportError)
    catalog = memory.InMemoryCatalog("c", warehouse=folder.as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema=SIGNALS.schema)
    table.append(SIGNALS.slice(0, 5))
    table.overwrite(SIGNALS)
    return folder / "n" / "t"


# The same rows in every form.
SAME: dict[str, Write] = {
    "parquet": lambda folder: parquet(folder / "s.parquet", SIGNALS),
    "parquet of microseconds": lambda f: parquet(f / "s.parquet", stamped("us", "UTC")),
    "parquet of nanoseconds without a zone": lambda f: parquet(f / "s.pq", stamped("ns", None)),
    "parquet in row groups": cut_in_groups,
    "parquet without an ending": lambda f: parquet(f / "part-0", SIGNALS),
    "json": lambda folder: put(folder / "s.json", lines(SIGNALS)),
    "json of timestamps": lambda f: put(f / "s.jsonl", lines(stamped("us", "UTC"))),
    "json.gz": lambda folder: put(folder / "s.json.gz", gzip.compress(lines(SIGNALS))),
    "json.bz2": lambda folder: put(folder / "s.json.bz2", bz2.compress(lines(SIGNALS))),
    "json.zst": lambda f: put(
        f / "s.ndjson.zst", pa.compress(lines(SIGNALS), "zstd", asbytes=True)
    ),
    "csv": lambda folder: put(folder / "s.csv", comma_separated(SIGNALS)),
    "csv.gz of timestamps": lambda f: put(
        f / "s.csv.gz", gzip.compress(comma_separated(stamped("us", "UTC")))
    ),
    "csv with semicolons": lambda f: put(f / "s.csv", comma_separated(SIGNALS, ";")),
    "tsv": lambda folder: put(folder / "s.tsv", comma_separated(SIGNALS, "\t")),
    "a folder of everything": several,
    "a pattern": lambda folder: f"{several(folder)}/**/[a-c].*",
    "a URL": lambda folder: several(folder).as_uri(),
    "delta": delta,
    "iceberg": iceberg,
}


# Rows and lines that are broken, and how each engine must say so.
ODD: dict[str, tuple[Write, Columns | None]] = {
    "torn json": (
        lambda f: put(f / "s.json", lines(SIGNALS, "{", "[1]", "17", '{"key": NaN}', '{"key": 1}')),
        None,
    ),
    "odd values in json": (
        lambda f: put(
            f / "s.json",
            lines(
                SIGNALS,
                '{"key": "k", "offset": 1, "at_ms": "soon"}',
                '{"key": "k", "offset": "1", "at_ms": "2026-01-05T12:00:00Z"}',
                '{"key": {}, "offset": 1, "at_ms": 1}',
                '{"key": "k", "offset": 1.5, "at_ms": 1}',
                '{"key": 7, "offset": 18446744073709551616, "at_ms": 1}',
            ),
        ),
        None,
    ),
    "not unicode": (lambda f: put(f / "s.json", lines(SIGNALS) + b'{"key": "\xff"}\n'), None),
    "torn csv": (
        lambda f: put(
            f / "s.csv", comma_separated(SIGNALS, ",", "a,1", "a,1,2,3", "k,x,5", "k,1,y")
        ),
        None,
    ),
    "csv that is not unicode": (
        lambda f: put(f / "s.csv", comma_separated(SIGNALS) + b"\xff,1,5\n"),
        None,
    ),
    "empty": (lambda f: put(f / "s.json", b"\n\n"), None),
    "events as they are": (
        lambda f: put(
            f / "e.csv",
            b"id,type,order,when\n1,paid,7,2026-01-05T12:00:00Z\n2,seen,8,x\n3,paid,,2026-01-05\n",
        ),
        signal_columns(key="{type}/{order}", at_ms="when", where={"type": "paid"}),
    ),
    "hive folders": (
        lambda f: (
            parquet(
                f / "kind=paid" / "s.parquet", SIGNALS.drop_columns("key").slice(0, 4)
            ).parent.parent
        ),
        signal_columns(key="{kind}"),
    ),
}


Answer = tuple[list[Row], list[tuple[str, str]]]


def sorted_rows(found: list[Any]) -> list[Any]:
    return sorted(found, key=repr)


def here(path: str | Path, name: str, columns: Columns | None) -> Answer:
    read = files.read(path, name, columns)
    broken = [(row["reason"], row["row"]) for row in read.rejected.to_pylist()]
    return sorted_rows(read.table.to_pylist()), sorted_rows(broken)


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], tuple[Answer, Answer]]:
    """What both engines read for each case of signals."""
    request.getfixturevalue("spark")
    paths: dict[str, Any] = {}

    def place(case: str, write: Write) -> None:
        try:
            paths[case] = write(tmp_path_factory.mktemp("case"))
        except pytest.skip.Exception as skipped:
            paths[case] = skipped

    for case, write in SAME.items():
        place(case, write)
    for case, (write, _) in ODD.items():
        place(case, write)
    columns = {case: how for case, (_, how) in ODD.items()}
    ready = {case: path for case, path in paths.items() if isinstance(path, (str, Path))}
    there = on_spark({case: (path, columns.get(case)) for case, path in ready.items()})

    def answers(case: str) -> tuple[Answer, Answer]:
        if case not in ready:
            raise paths[case]
        return here(ready[case], "signals", columns.get(case)), there[case]

    return answers


def on_spark(cases: dict[str, tuple[Any, Columns | None]]) -> dict[str, Answer]:
    from pyspark.sql import functions as F

    from sojourn.spark.tables import read_table
    from tests.spark import fixtures

    spark = fixtures.shared_session()
    frames: list[DataFrame] = [
        read_table(spark, path, "signals", columns).withColumn("case", F.lit(case))
        for case, (path, columns) in cases.items()
    ]
    found: dict[str, Answer] = {case: ([], []) for case in cases}
    everything = functools.reduce(lambda one, other: one.union(other), frames).coalesce(2)
    for row in everything.collect():
        good, bad = found[row["case"]]
        if row[rows.CORRUPT] is None:
            good.append({name: row[name] for name in ("key", "offset", "at_ms")})
        else:
            bad.append((row[rows.CORRUPT_REASON], row[rows.CORRUPT]))
    return {case: (sorted_rows(good), sorted_rows(bad)) for case, (good, bad) in found.items()}


@pytest.mark.parametrize("case", SAME)
def test_every_format_has_the_same_rows_on_both_engines(
    case: str, both: Callable[[str], tuple[Answer, Answer]]
) -> None:
    (good, bad), there = both(case)
    assert (good, bad) == there
    assert good == sorted_rows(GOOD)
    assert sorted(reason for reason, _ in bad) == ["at_ms is null", "key is null", "offset is null"]


@pytest.mark.parametrize("case", ODD)
def test_what_is_broken_is_rejected_for_the_same_reasons_on_both_engines(
    case: str, both: Callable[[str], tuple[Answer, Answer]]
) -> None:
    (good, bad), there = both(case)
    assert (good, bad) == there
    if case == "torn csv":
        assert ("the line has 2 values, not 3", "a,1") in bad
        assert {"offset is not an integer", "at_ms is not a time"} <= {reason for reason, _ in bad}
    if case == "events as they are":
        assert good == [{"key": "paid/7", "offset": 1, "at_ms": NOON_MS}]
        assert [reason for reason, _ in bad] == ["key is null"]
    if case == "hive folders":
        assert {row["key"] for row in good} == {"paid"}


# Operations, which have columns of their own.


def operations(first: int, **more: Any) -> pa.Table:
    ids = [f"op-{n}" for n in range(first, first + 4)]
    requires = pa.array([[{"key": "paid/3", "offset": 0}]] * 4, schemas.REQUIRES)
    known = {"id": ids, "submitted_ms": [NOON_MS] * 4, "timeout_ms": [first, 1, -1, 5]}
    return pa.table({**known, "requires": requires, **more})


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Four files: each has another column, another type, or another format."""
    moment = datetime.datetime(2026, 1, 5, tzinfo=datetime.UTC)
    parquet(tmp_path / "o" / "a.parquet", operations(0, shop=["x", "y", None, "z"]))
    parquet(
        tmp_path / "o" / "b.parquet", operations(4, weight=pa.array([1, 2, 3, None], pa.int16()))
    )
    put(tmp_path / "o" / "c.json", lines(operations(8, weight=[10**9, 1, 2, 3], tags=[["t"]] * 4)))
    put(tmp_path / "o" / "d.csv", comma_separated(operations(2, shop=["p", "q", "r", "s"])))
    parquet(tmp_path / "o" / "e.parquet", operations(12, since=[moment] * 4))
    return tmp_path / "o"


def test_columns_that_only_some_files_have_are_not_lost_on_either_engine(
    orders: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import sojourn.spark as sp

    spark = request.getfixturevalue("spark")
    news = parquet(tmp_path / "s.parquet", SIGNALS)
    expected = files.resolve_files(orders, news)
    assert expected.outcomes.column_names[-4:] == ["shop", "weight", "tags", "since"]
    found = sp.resolve(
        sp.read_table(spark, orders, "operations"), sp.read_table(spark, news, "signals")
    )
    with found:
        outcomes, rejected = found.outcomes.toArrow(), found.rejected.toArrow()
    assert sorted_rows(outcomes.to_pylist()) == sorted_rows(expected.outcomes.to_pylist())
    assert sorted_rows(rejected.to_pylist()) == sorted_rows(expected.rejected.to_pylist())
    reasons = set(rejected["reason"].to_pylist())
    assert reasons >= {"timeout_ms is negative", rows.DUPLICATE, "key is null"}


def test_files_that_do_not_make_one_table_are_told_alike(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from sojourn.spark.tables import read_table

    parquet(tmp_path / "o" / "a.parquet", operations(0, shop=[1, 2, 3, 4]))
    parquet(tmp_path / "o" / "b.parquet", operations(4, shop=[[1]] * 4))
    with pytest.raises(SojournError, match="do not make one table") as caught:
        files.read(tmp_path / "o", "operations")
    with pytest.raises(SojournError, match="do not make one table") as there:
        read_table(request.getfixturevalue("spark"), tmp_path / "o", "operations")
    assert str(there.value).partition(";")[0] == str(caught.value).partition(";")[0]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("cut.parquet", b"PAR1 and no more"),
        ("cut.json.gz", gzip.compress(b"{}")[:-4]),
        ("cut.csv.bz2", bz2.compress(b"a,b")[:-4]),
        ("lacks.csv", b"key,offset\nk,1\n"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_file_is_named_alike_on_both_engines(
    tmp_path: Path, name: str, data: bytes, request: pytest.FixtureRequest
) -> None:
    from sojourn.spark.tables import read_table

    parquet(tmp_path / "s" / "a.parquet", SIGNALS)
    put(tmp_path / "s" / name, data)
    with pytest.raises(SojournError, match=name) as caught:
        files.read(tmp_path / "s", "signals")
    spark = request.getfixturevalue("spark")
    with pytest.raises(Exception, match=name) as there:
        read_table(spark, tmp_path / "s", "signals").collect()
    assert _gist(there.value).removesuffix(" (--traceback shows all of it)") == str(caught.value)


def test_what_is_not_there_is_named_alike_and_before_a_job(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from sojourn.spark.tables import read_table

    spark = request.getfixturevalue("spark")
    for read in (files.read, functools.partial(read_table, spark)):
        with pytest.raises(NoSuchFile, match=r"signals: there is no .*nowhere"):
            read(tmp_path / "nowhere", "signals")


@pytest.mark.parametrize(
    ("folder", "package"), [("_delta_log", "deltalake"), ("metadata", "pyiceberg")]
)
def test_a_table_whose_package_is_not_there_is_an_error_and_not_read_as_files(
    tmp_path: Path, folder: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "pyiceberg.table", None)
    parquet(tmp_path / "t" / "a.parquet", SIGNALS)
    put(tmp_path / "t" / folder / "00001-x.metadata.json", b"{}")
    with pytest.raises(BadFile, match=f"pip install {package}"):
        files.read(tmp_path / "t", "signals")


def test_a_url_that_nothing_can_reach_says_what_to_install() -> None:
    with pytest.raises(
        BadFile, match=r"strange://x: .*(pip install fsspec|neither Arrow nor fsspec)"
    ):
        files.read("strange://x", "signals")


def test_a_mapping_works_on_files_of_every_format(tmp_path: Path) -> None:
    table = pa.table({"order": [1, 2], "made": ["2026-01-05T12:00:00Z"] * 2, "status": ["a", "b"]})
    how = operation_columns(
        id="order", submitted_ms="made", timeout="5s", requires="paid/{order}", was="status"
    )
    expected = None
    for path in (
        parquet(tmp_path / "o.parquet", table),
        put(tmp_path / "o.json", lines(table)),
        put(tmp_path / "o.csv", comma_separated(table)),
    ):
        read = files.read(path, "operations", how)
        expected = expected or read.table
        assert read.table.equals(expected)
    assert expected is not None
    assert expected["was"].to_pylist() == ["a", "b"]
    assert replay.resolve(expected, SIGNALS).outcomes["status"].to_pylist() == ["completed"] * 2
