"""What docs/kafka-testing.md says is true: its test in each language passes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka.control.routes import ROUTES
from tests.kafka.test_command import start
from tests.until import PATIENCE_S

PAGE = (ROOT / "docs/kafka-testing.md").read_text(encoding="utf-8")
BUILD = ROOT / "build" / "languages"


@pytest.fixture
def control() -> Iterator[str]:
    """Where the control port of a new cluster is."""
    with start("--port", "0", "--control", "0", "--manual-clock", "--quiet") as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.stdout.readline().split()[-1]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)


def block(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(block)


def written(path: Path, language: str, control: str) -> Path:
    """The page's test in a file, for this control port."""
    code = block(language)
    assert "http://127.0.0.1:8092" in code or language == "xml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code.replace("http://127.0.0.1:8092", control), encoding="utf-8")
    return path


def run(*command: str, cwd: Path, **environment: str) -> str:
    finished = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout
    return finished.stdout


def fetch(*command: str, cwd: Path) -> None:
    """Get what the test needs from its registry, or skip it."""
    finished = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    if finished.returncode:
        said = (finished.stdout + finished.stderr)[-500:]
        pytest.skip(f"{' '.join(command)} got nothing from its registry: {said}")


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


def test_python(control: str, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    program = written(tmp_path / "test_orders.py", "python", control)
    said = run(
        sys.executable, "-m", "pytest", "-q", "--rootdir", str(tmp_path), str(program), cwd=ROOT
    )
    assert "2 passed" in said


@pytest.mark.nightly
def test_java(control: str) -> None:
    tool("java")
    mvn = tool("mvn")
    home = BUILD / "java"
    written(home / "pom.xml", "xml", control)
    written(home / "src/test/java/OrdersTest.java", "java", control)
    fetch(mvn, "-q", "-B", "dependency:resolve", cwd=home)
    said = run(mvn, "-B", "test", cwd=home)
    assert "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0" in said


@pytest.mark.nightly
def test_go(control: str) -> None:
    go = tool("go")
    home = BUILD / "go"
    written(home / "orders_test.go", "go", control)
    if not (home / "go.sum").exists():
        (home / "go.mod").unlink(missing_ok=True)
        fetch(go, "mod", "init", "orders", cwd=home)
        fetch(go, "get", "github.com/twmb/franz-go/pkg/kgo", cwd=home)
    said = run(go, "test", "-count=1", "-v", "./...", cwd=home)
    assert said.count("--- PASS: Test") == 2


@pytest.mark.nightly
def test_javascript(control: str) -> None:
    node, npm = tool("node"), tool("npm")
    home = BUILD / "javascript"
    written(home / "orders.test.js", "javascript", control)
    if not (home / "node_modules" / "kafkajs").exists():
        fetch(npm, "install", "--no-audit", "--no-fund", "kafkajs", cwd=home)
    said = run(node, "--test", cwd=home)
    assert re.search(r"^# pass 2$", said, re.MULTILINE), said


def test_the_page_lists_every_call() -> None:
    table = PAGE.split("| call | what for |")[1].split("\n\n")[0]
    listed = set()
    for cell in re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE):
        calls = re.findall(r"`([^`]+)`", cell)
        for one in calls:
            if one.startswith("…"):
                one = calls[0].rpartition("/")[0] + one.removeprefix("…")
            listed.add(one)
    served = {f"{method} {path}" for method, path, _ in ROUTES}
    assert listed | {"GET /"} == served
