"""Fixtures, and how a run goes: its seed, its builds, and what its workers share.

`pytest -n 3` (pytest-xdist) has three workers; see lanes.py for what stays together.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Protocol

import pytest

import sojourn
from tests import builds, lanes, seeds
from tests.spark import home
from tests.spark.fixtures import java as java
from tests.spark.fixtures import spark as spark
from tests.spark.spark_cluster import spark_cluster as spark_cluster

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


# The run.


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    seed = seeds.seed()  # now, so that workers and all other processes inherit it
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(seed)
    home.use()
    # What was started in the background ignores Ctrl-C, and would hand that on to all it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return f"sojourn: {'compiled' if sojourn.compiled else 'interpreted'}, {seeds.line()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("seed of the run", seeds.line()))
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if builds.on_both_builds(item.path) and lanes.lane_of(item.nodeid) not in lanes.SHARED:
            item.add_marker(pytest.mark.both_builds)
    items.sort(key=lambda item: lanes.rank(item.nodeid))


def pytest_collection_finish() -> None:
    _freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        _freeze()


def _freeze() -> None:
    """What was imported, and what tests keep for others, stays: collections may pass over it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False  # which is by the number of tests; ours is by time
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lanes.lane_of
    return scheduler


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are cores: half of the tests wait for other processes and clients."""
    return 2 * (os.cpu_count() or 1)


# Fixtures.


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
            timeout=60,
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
