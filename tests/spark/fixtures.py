"""One Spark session for all tests that need one; skipped where there is no Java."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def java() -> None:
    """Skips what needs a Java, with the reason, where there is none to be had."""
    need_java()


@pytest.fixture(scope="session")
def spark(java: None) -> SparkSession:
    return shared_session()


def need_java() -> None:
    pytest.importorskip("pyspark")
    from sojourn.spark.java import NoJava, find_java

    try:
        find_java(os.environ)
    except NoJava as error:
        pytest.skip(str(error))


@cache
def shared_session() -> SparkSession:
    """Two cores, two tasks and little memory, for the whole run: a session takes long to start.

    It ends with the process.
    """
    need_java()
    from sojourn.spark.session import local_session

    return local_session("local[2]", app_name="tests", driver_memory="1g", shuffle_partitions=2)
