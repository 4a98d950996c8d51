"""What `sojourn serve` can do besides: keep a history, and make traffic to look at."""

from __future__ import annotations

from pathlib import Path

from sojourn.cli import main
from tests.service.harness import running
from tests.until import until


def test_a_history_is_kept_that_verifies(tmp_path: Path) -> None:
    with running(tmp_path / "data", history=tmp_path / "history") as served:
        served.end(*(f"e{n}" for n in range(20)))
        served.submit("waits")
    assert list((tmp_path / "history").rglob("*.parquet"))
    assert main(["verify", str(tmp_path / "data"), "--history", str(tmp_path / "history")]) == 0


def test_sample_traffic_ends_in_every_way_it_should(tmp_path: Path) -> None:
    with running(tmp_path, sample_traffic=True) as served:

        def classes() -> set[str]:
            page = served.http.get("/v1/operations", params={"limit": 1000}).json()
            return {each["class"] for each in page["operations"]}

        until(lambda: classes() >= {"order", "delivery", "approval"}, "waits of every class")
        until(lambda: served.http.get("/v1/outcomes").json()["outcomes"], "an outcome")
