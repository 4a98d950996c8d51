"""The command that docs/data.md shows says what the page says it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sojourn.cli import main
from tests.checkout import ROOT

PAGE = ROOT / "docs" / "data.md"


def test_the_command_over_tables_as_they_are_says_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Your tables as they are")[2]
    for name, text in re.findall(r"^`([\w.]+)`\n\n```csv\n(.*?)^```", section, re.M | re.S):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = re.search(r"^```sh\nsojourn (.*?)^```", section, re.M | re.S)
    promised = re.search(r"^```text\n(.*?)^```", section, re.M | re.S)
    assert command is not None
    assert promised is not None
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(command[1].replace("\\\n", " ")), "--quiet"]) == 0
    output = re.sub(r"[\d.]+ s, local", "0.1 s, local", capsys.readouterr().out)
    assert output.splitlines() == promised[1].splitlines()
