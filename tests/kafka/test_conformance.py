"""Our cluster answers as Kafka does: every field of each answer, two versions of Kafka."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterator

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from tests.kafka.conformance import compare, recording, suite, table
from tests.kafka.conformance.scenarios import ALL
from tests.kafka.java_programs import jars_or_skip

recorded_answers = functools.cache(recording.read)


@functools.cache
def our_answers(scenario: str) -> list[recording.Answer]:
    """What our cluster answers; a scenario is played once for all tests."""
    log = logging.getLogger("sojourn")
    log.disabled = True  # it asks for much that brokers warn of
    try:
        return suite.our_answers([scenario])
    finally:
        log.disabled = False


def differences(scenario: str) -> Iterator[compare.Difference]:
    for version in recording.VERSIONS:
        recorded = [one for one in recorded_answers(version) if one.scenario == scenario]
        yield from compare.differences(version, recorded, our_answers(scenario))


@pytest.mark.parametrize("scenario", sorted(ALL))
def test_we_answer_as_kafka_does_but_where_the_page_says_otherwise(scenario: str) -> None:
    rows = table.rows()
    new = [one for one in differences(scenario) if not any(row.covers(one) for row in rows)]
    assert not new, f"{len(new)} differences:\n" + "\n".join(map(str, new[:40]))


def test_each_row_of_the_page_names_something_that_differs() -> None:
    differing = [one for scenario in ALL for one in differences(scenario)]
    for row in table.rows():
        for version in row.versions:
            covered = any(row.covers(one) for one in differing if one.version.startswith(version))
            assert covered, f"nothing differs from Kafka {version} here any more: {row}"


@pytest.mark.parametrize("version", recording.VERSIONS)
def test_as_many_answers_are_compared_as_the_page_says(version: str) -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    claim = re.search(r"^([\d,]+) answers of this cluster are compared", page, re.MULTILINE)
    assert claim is not None
    recorded = recorded_answers(version)
    assert len(recorded) >= int(claim[1].replace(",", ""))
    assert {one.scenario for one in recorded} <= ALL.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("version", recording.VERSIONS)
def test_kafka_still_answers_as_it_was_recorded(version: str) -> None:
    jars_or_skip(version)
    changed = compare.differences(version, recording.read(version), suite.recorded_anew(version))
    assert not changed, "recorded | now:\n" + "\n".join(map(str, changed[:40]))
