"""Fixtures: an interpreter of its own, threads that interleave closely, a quiet log."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Protocol

import pytest
from spark_cluster import cluster as cluster
from spark_fixtures import java as java
from spark_fixtures import spark as spark

import sojourn

if TYPE_CHECKING:
    from collections.abc import Iterator


class FreshPython(Protocol):
    """Runs code in an interpreter of its own and gives back how that went."""

    def __call__(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def fresh_python() -> FreshPython:
    """On the same build as this suite, unless the environment given says otherwise."""

    def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SOJOURN_")}
        build = {} if sojourn.compiled else {"SOJOURN_PURE": "1"}
        return subprocess.run(
            [sys.executable, "-c", code],
            env=inherited | (environment or build),
            capture_output=True,
            text=True,
            check=False,
            timeout=15,
        )

    return run


@pytest.fixture
def close_interleaving() -> Iterator[None]:
    """Threads lose the GIL as often as the interpreter allows, so that races are likely."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """The package's log says nothing while the test runs."""
    log = logging.getLogger("sojourn")
    log.disabled = True
    yield
    log.disabled = False
