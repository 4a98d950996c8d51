"""What docs/kafka.md says is true: each client's program runs, and prints what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from sojourn.kafka import Cluster
from sojourn.kafka.faults import Faults
from sojourn.kafka.settings import definitions as settings

PAGE = (ROOT / "docs/kafka.md").read_text(encoding="utf-8")
CLIENTS = ("confluent_kafka", "kafka", "aiokafka")


def programs() -> list[Any]:
    """The python blocks, each named by the client that it imports, if it does."""
    blocks: list[Any] = []
    for match in re.finditer(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        imported = re.search(r"^from (confluent_kafka|kafka|aiokafka)\b", match[1], re.MULTILINE)
        client = imported[1] if imported is not None else "sojourn"
        blocks.append(pytest.param(match[1], client, id=f"{client}-{len(blocks)}"))
    return blocks


def run(*command: str) -> str:
    """Run it as a reader would, in an interpreter of its own; return what it printed."""
    finished = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_each_client_has_a_program_on_the_page() -> None:
    assert {param.values[1] for param in programs()} == {*CLIENTS, "sojourn"}


@pytest.mark.parametrize(("code", "client"), programs())
def test_the_programs_on_the_page_run(code: str, client: str, tmp_path: Path) -> None:
    pytest.importorskip(client, reason=f"{client} is not installed")
    if "_SSL" in code:
        pytest.importorskip("trustme", reason="trustme is not installed")
    name = "test_page.py" if "def test_" in code else "page.py"
    program = tmp_path / name
    program.write_text(code, encoding="utf-8")
    if name.startswith("test_"):
        assert "1 passed" in run("-m", "pytest", "-q", "--rootdir", str(tmp_path), str(program))
        return
    promised = re.findall(r"print\(.*\)  # (.+)$", code, re.MULTILINE)
    assert promised
    assert run(str(program)).splitlines() == promised


def test_the_page_names_things_as_they_are_called() -> None:
    replicas = PAGE.split("## Brokers and replicas")[1].split("\n## ")[0]
    for name in re.findall(r"`(?:cluster\.)?(\w+)\(", replicas):
        assert callable(getattr(Cluster, name)), name
    faults = PAGE.split("## Scripted faults")[1].split("\n## ")[0]
    for name in re.findall(r"`faults\.(\w+)\(", faults):
        assert callable(getattr(Faults, name)), name
    with Cluster() as cluster:
        table = PAGE.split("## Which requests wait")[1].split("\n## ")[0]
        named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        assert [name.replace("_", "-") for name in named] == [
            one.name for one in cluster.purgatories
        ]
        for name in named:
            assert getattr(cluster.purgatories, name) is cluster.purgatories[name.replace("_", "-")]


def test_the_page_lists_the_defaults_that_are_not_kafkas() -> None:
    section = PAGE.split("## Settings")[1].split("\n## ")[0]
    listed = dict(re.findall(r"^\| `([a-z.]+)` \| (\d+) \|$", section, re.MULTILINE))
    assert listed == settings.FOR_DEVELOPMENT


def test_the_page_lists_the_settings_that_have_an_effect() -> None:
    section = PAGE.split("## Settings")[1].split("\n## ")[0]
    brokers, topics = re.findall(r"^- of (?:brokers|topics): .*$", section, re.MULTILINE)
    for definitions, line in [(settings.BROKER, brokers), (settings.TOPIC, topics)]:
        listed = set(re.findall(r"`([a-z]+\.[a-z.]+)`", line))
        assert listed == {name for name, known in definitions.items() if known.is_used}
