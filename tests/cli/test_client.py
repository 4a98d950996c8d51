"""The commands that talk to a service: what they send, what they say, how they end."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from sojourn.cli import main
from sojourn.cli.options import requirement
from sojourn.client import Client
from tests.client.service import WAIT_S, ServiceThread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    service = ServiceThread(tmp_path_factory.mktemp("data"))
    yield service.url
    service.close()


@pytest.fixture(autouse=True)
def environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_URL", url)
    monkeypatch.delenv("SOJOURN_TOKEN", raising=False)


class Run:
    """Runs a command and reads what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *args: str) -> tuple[int, list[Any], str]:
        status = main(list(args))
        output = self._capsys.readouterr()
        return status, [json.loads(line) for line in output.out.splitlines()], output.err

    def text(self, *args: str) -> tuple[int, str]:
        status = main(list(args))
        output = self._capsys.readouterr()
        return status, output.out + output.err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def test_an_operation_is_submitted_signalled_and_shown(run: Run) -> None:
    status, (output,), _ = run(
        *("submit", "order-7", "--require", "order-7/paid", "--require", "stock/a=b=40"),
        *("--timeout", "30min", "--needed", "1", "--class", "shop", "--payload", "ann"),
    )
    assert status == 0
    assert (output["of"], output["verdict"]) == ("order-7", "accepted")
    assert output["operation"]["deadline_ms"] - output["operation"]["submitted_ms"] == 1_800_000
    assert output["operation"]["requires"] == [
        {"key": "order-7/paid", "offset": 1},
        {"key": "stock/a=b", "offset": 40},
    ]
    status, (output,), _ = run("get", "order-7")
    assert (status, output["status"], output["needed"]) == (0, "waiting", 1)
    status, (output,), _ = run("signal", "stock/a=b", "41")
    assert (status, output["of"], output["verdict"]) == (0, "stock/a=b", "accepted")
    status, (output,), _ = run("get", "order-7", "--wait", "10s")
    assert (output["status"], output["by_key"]) == ("completed", "stock/a=b")
    assert (output["class"], output["payload"]) == ("shop", "ann")
    status, (output,), _ = run("cancel", "order-7")
    assert (status, output["verdict"]) == (0, "ended")


def test_people_get_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    status, text = run.text("submit", "words", "--require", "w", "--timeout", "1h", "--class", "c")
    assert status == 0
    assert text.startswith("words [c]: waiting until 20")
    assert text.endswith("Z (accepted)\n")
    assert run.text("signal", "w") == (0, "w: accepted\n")
    status, text = run.text("get", "words")
    assert " words [c]: completed by w at 20" in text
    assert run.text("signal", "w", "--json")[1].startswith("{")


def test_what_is_not_known_ends_with_one(run: Run) -> None:
    assert run.text("get", "nobody") == (1, "sojourn: nobody is not known, or no longer\n")
    status, (output,), _ = run("cancel", "nobody")
    assert (status, output["verdict"]) == (1, "unknown")


def test_a_payload_may_be_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"\x00\x01")
    run("submit", "bytes", "--require", "k", "--timeout", "1h", "--payload-file", f"{tmp_path}/p")
    assert run("get", "bytes")[1][0]["payload_base64"] == "AAE="
    status, text = run.text(
        "submit", "none", "--require", "k", "--timeout", "1h", "--payload-file", f"{tmp_path}/q"
    )
    assert (status, text) == (2, f"sojourn: there is no payload file {tmp_path}/q\n")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["submit"], "give either an ID or --from FILE"),
        (["submit", "a", "--from", "-"], "give either an ID or --from FILE"),
        (["submit", "a", "--timeout", "1h"], "give --require KEY=OFFSET"),
        (["submit", "a", "--require", "k"], "give --timeout DURATION"),
        (["submit", "--from", "x", "--timeout", "1h"], "with --from the rows say"),
        (["submit", "--from", "/nowhere/x"], "there is no file /nowhere/x"),
        (["submit", "a", "--require", "k=x", "--timeout", "1h"], "'k=x' is no requirement"),
        (["submit", "a", "--require", "k", "--timeout", "soon"], "'soon' is no duration"),
        (["submit", "a", "--require", "k", "--timeout", "1h", "--needed", "2"], "needed must be"),
        (["signal"], "give either a KEY or --from FILE"),
        (["signal", "k", "x"], "invalid int value"),
        (["outcomes", "--after", "1", "--subscription", "s"], "give either --after or"),
        (["outcomes", "--limit", "0"], "--limit must be 1 or more"),
        (["get", "a", "--url", "ftp://x"], "url must begin with http://"),
        (["get", "a", "--url", "http://127.0.0.1:1", "--call-timeout", "50ms"], "gave no answer"),
        (["get", "a", "--token-file", "/nowhere/t"], "there is no token file /nowhere/t"),
    ],
)
def test_what_cannot_be_ends_with_two_and_a_line(run: Run, args: list[str], why: str) -> None:
    status, text = run.text(*args)
    assert status == 2
    assert why in text
    assert "Traceback" not in text


def test_the_same_id_with_other_content_is_an_error_of_one_line(run: Run) -> None:
    run("submit", "taken", "--require", "k", "--timeout", "1h")
    status, text = run.text("submit", "taken", "--require", "l", "--timeout", "1h")
    assert status == 2
    assert text.startswith("sojourn: ")
    assert text.count("\n") == 1


def test_lines_in_are_lines_out(run: Run, tmp_path: Path) -> None:
    requires = [{"key": "many", "offset": 1}]
    rows: list[Any] = [
        {"id": "m0", "requires": requires, "timeout_ms": 1_000, "class": "c", "payload": [1]},
        {"id": "m1", "requires": [["many", 2]], "timeout_ms": 1_000, "payload_base64": "AAE="},
        {"id": "m2", "requires": requires},
        {"id": "m3", "requires": requires, "timeout_ms": 1_000, "colour": "red"},
        {"id": "m4", "requires": requires, "timeout_ms": -1},
        {"id": "m5", "requires": requires, "timeout_ms": 1, "payload_base64": "!"},
        {"id": "m6", "requires": requires, "timeout_ms": 1_000, "needed": None},
    ]
    lines = [json.dumps(row) for row in rows]
    (tmp_path / "rows").write_text("\n".join([*lines[:3], "", "{", "[]", *lines[3:]]))
    status, output, _ = run("submit", "--from", str(tmp_path / "rows"))
    assert status == 0
    assert [each["of"] for each in output] == [
        *("m0", "m1", "line 3", "line 5", "line 6", "line 7", "m4", "line 9", "m6")
    ]
    assert [each["verdict"] for each in output] == [
        *("accepted", "accepted", *["refused"] * 6, "accepted")
    ]
    assert "timeout_ms missing" in output[2]["error"]["message"]
    assert "line 5 is not JSON" in output[3]["error"]["message"]
    assert "colour is not known" in output[5]["error"]["message"]
    assert output[6]["error"]["kind"] == "OutOfRange"
    assert run("submit", "--from", str(tmp_path / "rows"), "--fail-on-rejected")[0] == 1


def test_signals_and_cancels_come_in_lines_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"key": "s", "offset": 3}\n{"key": "s"}\n'))
    status, output, _ = run("signal", "--from", "-")
    assert [each["verdict"] for each in output] == ["accepted", "refused"]
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"id": "nobody"}\n'))
    status, output, _ = run("cancel", "--from", "-", "--fail-on-rejected")
    assert (status, output[0]["verdict"]) == (0, "unknown")


def test_a_line_is_answered_before_the_next_one_is_there(url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sojourn", "signal", "--from", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for n in range(3):
        process.stdin.write(json.dumps({"key": "slow", "offset": n + 1}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["verdict"] == "accepted"
    process.stdin.close()
    assert process.wait(WAIT_S) == 0
    process.stdout.close()


def test_outcomes_are_shown_from_a_position_on(run: Run, url: str) -> None:
    with Client(url) as waits:
        last = max((each.number or 0 for each in waits.outcomes(limit=10**6)), default=0)
        waits.signal("out", 1)
        waits.submit_many([(f"out-{n}", [("out", 1)], 0) for n in range(5)])
    numbers = list(range(last + 1, last + 6))
    status, output, _ = run("outcomes", "--after", str(last), "--wait", "10s")
    assert status == 0
    assert [each["number"] for each in output][:5] == numbers
    output = run("outcomes", "--after", str(last), "--limit", "2")[1]
    assert [each["number"] for each in output] == numbers[:2]
    output = run("outcomes", "--after", str(last), "--follow", "--limit", "3")[1]
    assert [each["number"] for each in output] == numbers[:3]


def test_a_subscription_moves_when_lines_were_written(run: Run, url: str) -> None:
    with Client(url) as waits:
        waits.signal("sub", 1)
        waits.submit_many([(f"sub-{n}", [("sub", 1)], 0) for n in range(5)])
        mine = waits.subscription("cli")
        waits.get("sub-4", wait_ms=10_000)
    output = run("outcomes", "--subscription", "cli", "--limit", "3")[1]
    assert [each["number"] for each in output] == [1, 2, 3]
    with Client(url) as waits:
        assert waits.subscription("cli").position == 3
    output = run("outcomes", "--subscription", "cli", "--follow", "--limit", "1")[1]
    assert [each["number"] for each in output] == [4]
    assert mine.name == "cli"


def test_following_ends_with_ctrl_c(url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sojourn", "outcomes", "--follow"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with Client(url) as waits:
        waits.signal("int", 1)
        waits.submit("int", [("int", 1)], 0)
    assert process.stdout is not None
    assert process.stderr is not None
    for line in process.stdout:
        if json.loads(line)["id"] == "int":
            break
    process.send_signal(2)
    assert process.wait(WAIT_S) == 130
    assert process.stderr.read() == "interrupted\n"
    process.stdout.close()
    process.stderr.close()


def test_a_token_comes_from_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("some-token\n")
    assert run.text("get", "nobody", "--token-file", str(tmp_path / "token"))[0] == 1


def test_a_requirement_is_a_key_and_an_offset() -> None:
    assert requirement("a=3") == ("a", 3)
    assert requirement("a=b=-3") == ("a=b", -3)
    assert requirement("a") == ("a", 1)
