"""What a real Kafka answered: a line of JSON for each step, compressed, kept in the repository."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

DIRECTORY = Path(__file__).parent / "recordings"

#: The versions that answers are kept of.
VERSIONS = ("3.9.2", "4.3.1")


class Answer(NamedTuple):
    """What came back, after normalising, in one step of one scenario."""

    scenario: str
    step: str
    answer: Any


def write(version: str, answers: list[Answer]) -> None:
    DIRECTORY.mkdir(exist_ok=True)
    lines = "".join(
        json.dumps(answer, ensure_ascii=False, separators=(",", ":"), sort_keys=True) + "\n"
        for answer in sorted(answers, key=lambda answer: answer.scenario)
    )
    # No time in it: the same answers are the same file.
    _path(version).write_bytes(gzip.compress(lines.encode(), 9, mtime=0))


def read(version: str) -> list[Answer]:
    if not _path(version).exists():
        return []
    lines = gzip.decompress(_path(version).read_bytes()).decode().splitlines()
    return [Answer(*json.loads(line)) for line in lines]


def _path(version: str) -> Path:
    return DIRECTORY / f"{version}.jsonl.gz"
