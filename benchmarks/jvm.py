"""Kafka's own timer and purgatory: fetched by Maven, driven by the small program in jvm/.

Whatever is missing (Java, Maven, the network) is told in `missing`, and the rest goes on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.case import Params

_HERE = Path(__file__).parent / "jvm"
_SOURCES = _HERE / "src"
_LIBS = _HERE / "target" / "libs"
_HAND_CLOCK = _HERE / "target" / "hand-clock"
_CLASSES = _HERE / "target" / "classes"

# Purgatory and lateness run on the system clock, with nothing of Kafka's replaced.
_HAND_CLOCK_WORKLOADS = {"request-timeouts", "growth", "memory"}


class Jvm:
    """A Java that can run the benchmark, or the reason why there is none."""

    def __init__(self) -> None:
        self.missing = self._prepare()
        self._heap = f"{min(8, max(1, _memory_gb() // 2))}g"

    @property
    def version(self) -> str:
        jars = sorted(_LIBS.glob("kafka-server-common-*.jar"))
        return jars[-1].stem.rpartition("-")[2] if jars else ""

    @property
    def settings(self) -> str:
        return f"-Xmx{self._heap}, the JVM's default collector"

    def command(self, workload: str, contender: str, params: Params) -> list[str]:
        """The command that measures; contenders differ in heap and clock.

        kafka: the JVM chooses how its heap grows, up to the limit; collections while it grows are
        a good part of its figures. kafka-presized: it has the whole heap from the start, and the
        request timeouts then run without a single collection, which shows Kafka's code alone.
        kafka-system: Kafka's clock is left alone.
        """
        options = [f"-Xmx{self._heap}"]
        if contender == "kafka-presized":
            options.append(f"-Xms{self._heap}")
        classpath = [str(_CLASSES), str(_LIBS / "*")]
        if workload in _HAND_CLOCK_WORKLOADS and contender != "kafka-system":
            classpath.insert(0, str(_HAND_CLOCK))
        arguments = [f"{name}={_spell(value)}" for name, value in params.items()]
        return [
            "java", *options, "-cp", os.pathsep.join(classpath),
            "sojourn.bench.Bench", workload, *arguments,
        ]  # fmt: skip

    def _prepare(self) -> str:
        for tool in ("java", "javac", "mvn"):
            if not shutil.which(tool):
                return f"{tool} is not installed"
        fetch = ["mvn", "-q", "-B", "-f", str(_HERE), "dependency:copy-dependencies"]
        if not _newer(_LIBS, _HERE / "pom.xml"):
            shutil.rmtree(_LIBS, ignore_errors=True)
            if error := _run([*fetch, f"-DoutputDirectory={_LIBS}"]):
                return f"Maven could not fetch Kafka: {error}"
        hand_clock = sorted(map(str, (_SOURCES / "handclock").rglob("*.java")))
        program = sorted(map(str, (_SOURCES / "main").rglob("*.java")))
        jars = str(_LIBS / "*")
        for output, classpath, files in (
            (_HAND_CLOCK, jars, hand_clock),
            (_CLASSES, os.pathsep.join([str(_HAND_CLOCK), jars]), program),
        ):
            if error := _run(["javac", "-cp", classpath, "-d", str(output), *files]):
                return f"javac: {error}"
        return ""


def _run(command: list[str]) -> str:
    """Run it; the first line it complained with, or nothing."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return next((line for line in lines if "ERROR" in line or "error" in line), "failed")


def _newer(folder: Path, than: Path) -> bool:
    return folder.exists() and folder.stat().st_mtime >= than.stat().st_mtime


def _spell(value: int | str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _memory_gb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
