"""One Spark session for all tests that need one; skipped where there is no Java."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    """Skips what needs a Java, with the reason, where there is none to be had."""
    pytest.importorskip("pyspark")
    from sojourn.spark.java import NoJava, find_java

    try:
        find_java(os.environ)
    except NoJava as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    """Two cores and little memory, shared by the whole run: a session takes long to start."""
    from sojourn.spark.session import local_session

    session = local_session("local[2]", app_name="tests", driver_memory="1g")
    yield session
    session.stop()
