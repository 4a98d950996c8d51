"""`sojourn report`: one folder or two, and when their data ends."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sojourn.cli import main
from tests.report.reading import read_page
from tests.report.rows import Row, outcome, table


def written(folder: Path, rows: list[Row]) -> Path:
    (folder / "outcomes").mkdir(parents=True)
    pq.write_table(table(rows), folder / "outcomes" / "part-0.parquet")
    return folder


def week(expired: int) -> list[Row]:
    rows = [outcome(n, "expired", 0, 1_000, 2_000, kind="order") for n in range(expired)]
    return rows + [
        outcome(n, "completed", 0, 500, timeout_ms=1_000, kind="order") for n in range(expired, 100)
    ]


def test_a_folder_has_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = written(tmp_path / "answers", week(20))
    assert main(["report", str(folder), "--json"]) == 0
    text = json.loads(capsys.readouterr().out)
    assert text["expired"] == 20
    assert text["files"] == {"report": str(folder / "report.html")}
    page = read_page((folder / "report.html").read_text(encoding="utf-8"))
    assert page.one("h1").text == "100 operations: 80.0 % completed, 20.0 % ran out of time"


def test_two_folders_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path / "last-week", week(20))
    after = written(tmp_path / "this-week", week(5))
    assert main(["report", str(before), str(after), "--json"]) == 0
    text = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["expired"] for each in text] == [20, 5]
    page = read_page((after / "comparison.html").read_text(encoding="utf-8"))
    lines = {row[0]: row[2] for row in page.one("div", "advice").rows}
    assert lines == {
        "all operations last-week ▲ too tight": "20.0 % 20",
        "all operations this-week ▲ too tight": "5.0 % 5",
        "order last-week ▲ too tight": "20.0 % 20",
        "order this-week ▲ too tight": "5.0 % 5",
    }


def test_folders_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    folders = [written(tmp_path / name / "answers", week(9)) for name in ("a", "b")]
    out = tmp_path / "two.html"
    assert main(["report", *map(str, folders), "-o", str(out), "--quiet"]) == 0
    text = read_page(out.read_text(encoding="utf-8")).text
    assert all(str(folder) in text for folder in folders)


def test_it_can_be_told_when_the_data_ends(tmp_path: Path) -> None:
    folder = written(tmp_path / "answers", week(20))
    assert main(["report", str(folder), "--until", "1970-01-01T01:00", "--quiet"]) == 0
    text = read_page((folder / "report.html").read_text(encoding="utf-8")).text
    assert "The data is taken to end on 1 Jan 1970, 01:00." in text


def test_a_second_folder_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = written(tmp_path / "answers", week(20))
    assert main(["report", str(folder), str(tmp_path / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()
