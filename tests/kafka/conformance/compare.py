"""Two answers, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.kafka.conformance.recording import Answer

#: Stands for a field, an element or a whole step that one side does not have.
NOTHING = "nothing"


class Difference(NamedTuple):
    """One field of one step on which Kafka and we do not agree."""

    version: str
    step: str  # with its scenario before it
    field: str
    kafka: str
    ours: str

    def __str__(self) -> str:
        return (
            f"{self.version} | {self.step} | {self.field} | Kafka {self.kafka} | ours {self.ours}"
        )


def differences(
    version: str, recorded: Sequence[Answer], ours: Sequence[Answer]
) -> list[Difference]:
    """Every field that differs, of every step that either side has."""
    here = {(answer.scenario, answer.step): answer.answer for answer in ours}
    there = {(answer.scenario, answer.step): answer.answer for answer in recorded}
    found = []
    for key in here | there:
        name = f"{key[0]}: {key[1]}"
        if key not in here or key not in there:
            sides = [str(key in side and "a step") for side in (there, here)]
            found.append(Difference(version, name, "", *sides))
            continue
        for field, kafka, own in _differing(there[key], here[key], ""):
            found.append(Difference(version, name, field, kafka, own))
    return found


def _differing(kafka: Any, ours: Any, at: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(kafka, dict) and isinstance(ours, dict):
        for key in kafka | ours:
            yield from _differing(kafka.get(key, NOTHING), ours.get(key, NOTHING), _in(at, key))
    elif isinstance(kafka, list) and isinstance(ours, list):
        for number in range(max(len(kafka), len(ours))):
            yield from _differing(_at(kafka, number), _at(ours, number), _in(at, str(number)))
    elif kafka != ours:
        yield at, _text(kafka), _text(ours)


def _in(at: str, key: str) -> str:
    return f"{at}/{key}" if at else key


def _at(values: list[Any], number: int) -> Any:
    return values[number] if number < len(values) else NOTHING


def _text(value: Any) -> str:
    if value == NOTHING:
        return NOTHING
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else f"{text[:77]}..."
