"""Our cluster answers as Kafka does: every field of some two thousand answers, two versions."""

from __future__ import annotations

import functools
import logging

import pytest

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

from tests.kafka.conformance import compare, recording, suite, table
from tests.kafka.java_programs import jars_or_skip

_LEAST = 600


@functools.cache
def _ours() -> list[recording.Answer]:
    """What our cluster answers now; the scenarios are played once for all tests."""
    log = logging.getLogger("sojourn")
    log.disabled = True  # they ask for much that brokers warn of
    try:
        return suite.our_answers()
    finally:
        log.disabled = False


@functools.cache
def _differences(version: str) -> list[compare.Difference]:
    return compare.differences(version, recording.read(version), _ours())


@pytest.mark.parametrize("version", recording.VERSIONS)
def test_we_answer_as_kafka_does_but_where_the_page_says_otherwise(version: str) -> None:
    rows = table.rows()
    new = [one for one in _differences(version) if not any(row.covers(one) for row in rows)]
    assert not new, f"{len(new)} differences:\n" + "\n".join(map(str, new[:40]))


def test_each_row_of_the_page_names_something_that_differs() -> None:
    differing = [one for version in recording.VERSIONS for one in _differences(version)]
    for row in table.rows():
        for version in row.versions:
            covered = any(row.covers(one) for one in differing if one.version.startswith(version))
            assert covered, f"nothing differs from Kafka {version} here any more: {row}"


@pytest.mark.parametrize("version", recording.VERSIONS)
def test_enough_is_compared(version: str) -> None:
    assert len(recording.read(version)) >= _LEAST


@pytest.mark.nightly
@pytest.mark.parametrize("version", recording.VERSIONS)
def test_kafka_still_answers_as_it_was_recorded(version: str) -> None:
    jars_or_skip(version)
    changed = compare.differences(version, recording.read(version), suite.recorded_anew(version))
    assert not changed, "recorded | now:\n" + "\n".join(map(str, changed[:40]))
