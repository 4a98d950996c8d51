"""Every example runs by itself, ends by itself, and says what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import sojourn
from tests.checkout import ROOT
from tests.until import PATIENCE_S


def run(module: str, *options: str) -> str:
    """Run an example as a user would, on the build under test; return what it printed."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", f"examples.{module}", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return finished.stdout


def run_undisturbed(says: Callable[[str], bool], module: str, *options: str) -> str:
    """Run an example until it says what it says on a machine that keeps up with it.

    These examples have timeouts of some hundred milliseconds in real time. Where the machine stands
    still for longer than that, other things time out, and rightly.
    """
    for _ in range(9):
        told = run(module, *options)
        if says(told):
            break
    return told


def number(label: str, text: str) -> int:
    """The number that follows the label."""
    found = re.search(rf"{label} ([\d,]+)", text)
    assert found is not None, f"no {label!r} in:\n{text}"
    return int(found[1].replace(",", ""))


def test_every_example_is_run_here() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    programs = {
        path.stem
        for path in (ROOT / "examples").glob("*.py")
        if '__name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert len(programs) >= 7
    assert {name for name in programs if f'"{name}"' not in tested} == set()


def test_watch_tells_its_story_without_a_terminal() -> None:
    told = run("watch", "--seconds", "1")
    assert ("compiled" if sojourn.compiled else "interpreted") in told
    assert number("completed", told.split("submitted")[1]) > 0
    assert "errors 0" in told
    assert "watched 0, delayed 0" in told


def test_watch_accounts_for_every_request_once() -> None:
    told = run("watch", "--seconds", "1").split("submitted", 1)[1]
    completed, expired = number("completed", told), number("expired", told)
    assert number("", "submitted" + told.replace("\n", " ")) == completed + expired + number(
        "dropped at the end", told
    )
    assert number("answered ", told) == completed + expired


def test_watch_writes_the_last_frame_as_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "wheel.svg"
    run("watch", "--seconds", "0.5", "--picture", str(picture))
    svg = picture.read_text(encoding="utf-8")
    assert svg.startswith("<svg")
    assert "purgatory" in svg
    assert "@font-face" not in svg  # nothing to fetch


def test_watch_refuses_a_run_of_no_length() -> None:
    with pytest.raises(AssertionError, match="--seconds must be above 0"):
        run("watch", "--seconds", "0")


def test_a_produce_is_answered_when_the_replicas_have_it_or_its_time_is_up() -> None:
    told = run("produce_acks")
    assert "35 ms  request 1 answered: {'orders-0': 'ok', 'payments-3': 'ok'}" in told
    assert "335 ms  request 2 answered: {'orders-0': 'ok', 'payments-3': 'timed out'}" in told
    assert "request 3 answered: {'payments-3': 'not leader', 'orders-0': 'ok'}" in told
    assert "watched=0 delayed=0" in told


def test_only_requests_without_an_answer_time_out() -> None:
    expected = f"timed out, in order: {list(range(0, 1000, 100))}"
    told = run_undisturbed(lambda told: expected in told, "request_timeouts")
    assert "sent 1000 requests" in told
    assert expected in told


def test_a_coroutine_waits_for_news_or_gives_up() -> None:
    expected = ["2 wait", "bought 5 apples, 2 left", "gave up on 5 pears"]
    told = run_undisturbed(lambda told: told.splitlines() == expected, "async_wait")
    assert told.splitlines() == expected


def test_half_hours_pass_without_sleeping() -> None:
    told = run("manual_clock_test")
    assert told.count("passed") == 2
    assert "59 minutes on the clock" in told


def test_every_lease_is_given_back_or_runs_out() -> None:
    told = run("deadline_wheel")
    added, given_back = number("added", told), number("took out", told)
    ran_out = [int(n.replace(",", "")) for n in re.findall(r": ([\d,]+) leases ran out", told)]
    assert ran_out[0] == 0
    assert sum(ran_out) == added - given_back
    assert told.endswith("left: 0\n")


def test_one_deadline_serves_several_futures() -> None:
    expected = [
        *("merged [9, 16, 25]", "all in time: True"),
        *("merged [9, 16]", "all in time: False, late: 1"),
        *("too late: 25", "threads left: 0"),
    ]
    told = run_undisturbed(lambda told: told.splitlines() == expected, "delayed_futures")
    assert told.splitlines() == expected


def test_every_order_is_paid_or_expires_and_the_server_stops() -> None:
    def ends(told: str) -> list[int]:
        return [number(label, told) for label in ("= paid", "expired", "at the end")]

    options = ("--seconds", "1", "--port", "0")
    told = run_undisturbed(lambda told: min(ends(told)) > 0, "prometheus", *options)
    assert re.match(r"for 1 s: http://127\.0\.0\.1:\d+/metrics\n", told)
    assert number("orders", told) == sum(ends(told))
    assert min(ends(told)) > 0


def test_prometheus_can_scrape_the_orders_as_they_end() -> None:
    """Over HTTP, as often as it takes for the orders to be seen ending."""
    command = [sys.executable, "-W", "error", "-m", "examples.prometheus", "--port", "0"]
    with subprocess.Popen(
        [*command, "--seconds", "600"], cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            give_up_s = time.monotonic() + PATIENCE_S
            seen: dict[str, float] = {}
            while seen.get("sojourn_purgatory_expired_total", 0) < 3:
                assert time.monotonic() < give_up_s, seen
                with urllib.request.urlopen(address, timeout=PATIENCE_S) as page:
                    assert page.headers["Content-Type"].startswith("text/plain; version=")
                    families = list(text_string_to_metric_families(page.read().decode()))
                samples = [sample for family in families for sample in family.samples]
                now = {s.name: s.value for s in samples if s.name.startswith("sojourn_")}
                counters = {name for name in seen if name.endswith(("_total", "_count", "_sum"))}
                assert {name for name in counters if now[name] < seen[name]} == set()
                seen = now
        finally:
            process.terminate()
    assert seen["sojourn_purgatory_completed_total"] > 0
    assert seen["sojourn_purgatory_waiting_seconds_sum"] > 0
    assert seen["sojourn_timer_waiting"] >= 0


def test_three_clients_in_one_group_read_a_topic_once() -> None:
    for client in ("kio", "confluent_kafka", "kafka", "aiokafka"):
        pytest.importorskip(client, reason=f"{client} is not installed")
    third = "aiokafka joined: generation 3, 3 members"  # unless one had to join again
    told = run_undisturbed(lambda told: third in told, "kafka_mixed_group").splitlines()
    assert told[2] == third
    assert sum(number("read", line) for line in told[3:6]) == 600
    assert told[6] == "600 written, 600 different ones read"
    assert told[-1] == "waiting: 0 rebalances, 0 heartbeats"
