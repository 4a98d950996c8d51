"""A client's own suite, run against the cluster. docs/kafka.md has the numbers of the others.

franz-go's comes as a Go module with its tests in it, and takes the brokers from the environment.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytest.importorskip("kio", reason="kio is not installed: pip install sojourn[kafka]")

import sojourn
from sojourn.kafka import Cluster
from tests.kafka.test_languages import tool

MODULE = "github.com/twmb/franz-go@v1.22.2"
BUILD = ROOT / "build" / "suites" / "franz-go"


def sources(go: str) -> Path:
    """The module's own copy, which tests may write into; or the test is skipped."""
    if not BUILD.exists():
        done = subprocess.run(
            [go, "mod", "download", "-json", MODULE], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"go mod download {MODULE} got nothing: {done.stdout or done.stderr}")
        shutil.copytree(json.loads(done.stdout)["Dir"], BUILD, copy_function=shutil.copyfile)
        for folder in (BUILD, *BUILD.rglob("*/")):
            folder.chmod(0o755)  # Go keeps modules in folders that nobody can write into
    return BUILD


@pytest.mark.nightly
@pytest.mark.skipif(not sojourn.compiled, reason="the suite's limits of time want a compiled build")
def test_franz_go_passes_its_own_suite() -> None:
    go = tool("go")
    folder = sources(go)
    with Cluster(brokers=3) as cluster:
        environment = {
            "KGO_SEEDS": cluster.bootstrap_servers,
            "KGO_TEST_RECORDS": "20000",
            "KGO_TEST_UNSAFE": "1",
            "KGO_LOG_LEVEL": "none",
        }
        done = subprocess.run(
            [go, "test", "-count=1", "-v", "-timeout=40m", "./pkg/kgo"],
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
    said = done.stdout + done.stderr
    failed = re.findall(r"^--- FAIL: (\w+)", said, re.MULTILINE)
    passed = re.findall(r"^--- PASS: (\w+)", said, re.MULTILINE)
    assert len(passed) > 130, said[-4_000:]
    assert not failed, said[-4_000:]
