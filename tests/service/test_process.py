"""`sojourn serve` as a process: how it starts, ends, is killed, and starts again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from sojourn.cli import main
from tests.checkout import ROOT
from tests.service.harness import LONG_S, Process
from tests.until import until


def client(process: Process) -> httpx.Client:
    return httpx.Client(base_url=process.url, timeout=LONG_S, trust_env=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_0_and_nothing_is_lost(
    tmp_path: Path, number: signal.Signals
) -> None:
    answered: list[str] = []
    with Process(tmp_path) as process, client(process) as http:
        http.post("/v1/operations", json=row("poll")).raise_for_status()
        polled: list[httpx.Response] = []
        threads = [
            threading.Thread(target=submit_many, args=(http, "a", answered)),
            threading.Thread(
                target=lambda: polled.append(http.get("/v1/operations/poll?wait_ms=60000"))
            ),
        ]
        for thread in threads:
            thread.start()
        until(lambda: len(answered) > 20, "submits")
        with client(process) as other:
            until(lambda: 'waiters{service="service"} 1.0' in other.get("/metrics").text, "a poll")
        process.process.send_signal(number)
        status, _, said = process.wait()
        for thread in threads:
            thread.join(LONG_S)
    assert status == 0
    assert "Traceback" not in said
    assert polled[0].json()["status"] == "waiting"
    with Process(tmp_path) as process, client(process) as http:
        check_all(http, answered)


def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    answered: list[str] = []
    for turn in range(3):
        with Process(tmp_path) as process, client(process) as http:
            check_all(http, answered)
            goal = len(answered) + 100
            thread = threading.Thread(target=submit_many, args=(http, f"{turn}", answered))
            thread.start()
            until(lambda goal=goal: len(answered) > goal, "submits")  # type: ignore[misc]
            process.process.kill()
            thread.join(LONG_S)
            assert process.wait()[0] == -signal.SIGKILL
    with Process(tmp_path) as process, client(process) as http:
        check_all(http, answered)


def row(id: str) -> Any:
    return {"id": id, "requires": [{"key": "k", "offset": 1}], "timeout_ms": 10**8}


def submit_many(http: httpx.Client, name: str, answered: list[str]) -> None:
    """Until the service is gone or going; `answered` are the ids that it took."""
    for n in range(100_000):
        rows = [row(f"{name}-{n}-{at}") for at in range(1 + n % 5)]
        try:
            answer = http.post("/v1/operations", json=rows)
        except httpx.HTTPError:
            return
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] == "closing"
            return
        answered.extend(each["operation"]["id"] for each in answer.json()["answers"])


def check_all(http: httpx.Client, answered: list[str]) -> None:
    """They are there: submitting them again changes nothing."""
    for at in range(0, len(answered), 1000):
        rows = [row(id) for id in answered[at : at + 1000]]
        answers = http.post("/v1/operations", json=rows).json()["answers"]
        assert {each["verdict"] for each in answers} == {"duplicate"}


def test_a_second_process_on_the_data_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with Process(tmp_path) as first, Process(tmp_path) as second:
        status, _, said = second.wait()
        assert status == 2
        assert str(first.process.pid) in said
        with client(first) as http:
            assert http.get("/healthz").status_code == 200


def test_a_port_that_is_taken_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", str(tmp_path), "--port", str(port)]) == 2
    assert f"port {port}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--token-file", "none"], "token file"),
        (["--limit", "rows=x"], "limit rows"),
        (["--limit", "rows=0"], "limit rows"),
        (["--limit", "bananas=1"], "bananas"),
        (["--webhook-allow", "shop.example"], "--webhook-allow"),
        (["--max-waiting", "0"], "max_waiting"),
        (["--webhook-secret-file", "none"], "none"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, options: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(tmp_path), "--port", "0", *options]) == 2
    assert what in capsys.readouterr().err


def test_tokens_are_asked_for_and_not_logged(tmp_path: Path) -> None:
    token = "a-token-that-nobody-logs"
    file = tmp_path / "tokens"
    file.write_text(f"read,write {token}\n")
    options = ("--host", "0.0.0.0", "--token-file", str(file), "--host-name", "waits.example")
    with Process(tmp_path / "data", *options) as process:
        process.url = f"http://127.0.0.1:{process.port}"
        with client(process) as http:
            assert http.get("/v1/outcomes").status_code == 401
            headers = {"authorization": f"Bearer {token}", "host": "waits.example"}
            assert http.get("/v1/outcomes", headers=headers).status_code == 200
        process.process.terminate()
        status, out, err = process.wait()
    assert status == 0
    assert token not in out + err


def test_data_that_cannot_be_made_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["serve", str(tmp_path / "file"), "--port", "0"]) == 2
    assert "file" in capsys.readouterr().err


# The README.


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_curl_example_of_the_readme_works_as_printed(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(sojourn serve waits.*?)^```", readme, re.M | re.S)
    serve, *curls = block.splitlines()
    assert serve.partition("#")[0].strip() == "sojourn serve waits"
    assert len(curls) == 5
    with Process(tmp_path / "waits") as process:
        outcomes = []
        for line in curls:
            command, _, _ = line.partition("  #")
            command = command.replace("localhost:8080", f"127.0.0.1:{process.port}")
            done = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, timeout=LONG_S
            )
            assert done.returncode == 0, done.stderr
            outcomes.append(json.loads(done.stdout))
    assert outcomes[0]["verdict"] == "accepted"
    assert outcomes[-2]["status"] == "completed"
    assert outcomes[-1]["outcomes"][0]["id"] == outcomes[-2]["id"]


def test_the_package_without_the_extra_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['starlette'] = None\n"
        "from sojourn.cli import main\n"
        f"sys.exit(main(['serve', {str(tmp_path)!r}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 2
    assert "sojourn[service]" in done.stderr
