"""docs/service.md says what is so: its commands are run, and its tables are the code's."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from sojourn.service import Limits
from sojourn.service.routes import ACTIONS
from tests.checkout import ROOT
from tests.service.harness import LONG_S, running

PAGE = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The rows of the first table below the words."""
    table = PAGE[PAGE.index(heading) :].split("|---|", 1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[1:]]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_page_are_answered_as_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"^```console\n(\$ .*?)^```", PAGE, re.M | re.S)
    commands = [line for block in blocks for line in block.split("$ ")[1:]]
    assert len(commands) >= 10

    def normal(text: str) -> object:
        text = re.sub(r"\b\d{13}\b", "0", text)  # times
        return json.loads(re.sub(r'"waited_ms":\d+', '"waited_ms":1', text))

    with running(tmp_path) as served:
        for each in commands:
            command, _, expected = each.strip().partition("\n")
            command = command.replace("localhost:8080", f"127.0.0.1:{served.port}")
            done = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, timeout=LONG_S
            )
            assert done.returncode == 0, done.stderr
            assert normal(done.stdout) == normal(expected), command


def test_the_table_of_paths_is_that_of_the_routes() -> None:
    listed = {(cells[0].strip("`"), cells[1]) for cells in rows("## All paths")}
    assert listed == {
        (f"{action.method} {action.plain_path}", action.scope or "") for action in ACTIONS
    }


def test_the_table_of_limits_is_that_of_the_code() -> None:
    listed = {cells[0].strip("`"): int(cells[1]) for cells in rows("| limit | default")}
    assert listed == {each.name: each.default for each in fields(Limits)}


def test_the_table_of_errors_has_every_code() -> None:
    package = ROOT / "src" / "sojourn"
    files = [*(package / "service").rglob("*.py"), package / "origins.py"]
    source = "\n".join(path.read_text() for path in files)
    refused = r'(?:Refusal|Objection)\(\s*\d+(?: if \w+ else \d+)?,\s*"(\w+)"'
    raised = set(re.findall(refused, source))
    raised |= set(re.findall(r'"(\w+_(?:timeout|too_long))"', source))
    listed = {code for cells in rows("| code |") for code in re.findall(r"`(\w+)`", cells[0])}
    assert raised == listed
