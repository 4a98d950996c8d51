"""Spark's home in tests, in which JVMs and Pythons that live for a minute start quickly.

    python -m tests.spark.home

lays it out where there is none yet, or where Java or Spark have changed; `make test` does so first.
Nothing else depends on it: where it is missing Spark starts as it always does.

    build/spark/bin, jars     those of the pyspark that is installed
               /classes.jsa   an archive of Spark's classes (class data sharing): a JVM that maps it
                              need not find, parse and verify some ten thousand classes, and starts
                              a session with half the processor time
               /python        is not there. Spark has its Pythons look for pyspark first in a zip
                              in that folder, which has sources only: each of them compiles these
                              anew, and takes twice as long. So they import what is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.checkout import ROOT

HOME = ROOT / "build" / "spark"
_ARCHIVE = HOME / "classes.jsa"
_MADE_OF = HOME / "made-of"
# A JVM that lives for a minute has no use for its best compiler, nor for several collectors.
_SHORT_LIFE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# It says nothing of an archive that does not suit, as where an executor has other jars.
_MAPPED = f'{_SHORT_LIFE} "-XX:SharedArchiveFile={_ARCHIVE}" -Xlog:cds=off -Xlog:cds+dynamic=off'
_WRITTEN = f'{_SHORT_LIFE} "-XX:ArchiveClassesAtExit={_ARCHIVE}" -Xlog:disable'


def use() -> None:
    """Have all that this process starts use it, if it is there and Spark is at home nowhere else.

    It was made of one pyspark, and is only for that.
    """
    pyspark = _pyspark()
    if pyspark and _MADE_OF.exists() and (HOME / "jars").resolve() == (pyspark / "jars").resolve():
        os.environ.setdefault("SPARK_HOME", str(HOME))
        os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())  # of every driver


def java_options() -> str:
    """Options for a JVM of Spark's."""
    return _MAPPED if _ARCHIVE.exists() else _SHORT_LIFE


def make() -> None:
    """Lay it out; run a small stream, and keep the classes that it took."""
    pyspark = _pyspark()
    made_of = _made_of(pyspark) if pyspark else None
    if not pyspark or not made_of or (_MADE_OF.exists() and _MADE_OF.read_text() == made_of):
        return
    print(f"Spark's home for tests: {HOME.relative_to(ROOT)}, once", flush=True)
    for old in (_MADE_OF, _ARCHIVE, HOME / "bin", HOME / "jars"):
        old.unlink(missing_ok=True)
    HOME.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "jars"):
        (HOME / name).symlink_to(pyspark / name, target_is_directory=True)
    said = _run_stream({"SPARK_HOME": str(HOME), "SPARK_SUBMIT_OPTS": _WRITTEN})
    if not _ARCHIVE.exists():
        print(f"there is no archive, so JVMs read their classes:\n{said[-2000:]}")
    _MADE_OF.write_text(made_of)


def _pyspark() -> Path | None:
    """Where pyspark is installed, if it is."""
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec and spec.origin else None


def _made_of(pyspark: Path) -> str | None:
    """Which Java and which jars; None where there is no Java."""
    from sojourn.spark.java import NoJava, find_java

    try:
        home = find_java(os.environ).home
    except NoJava:
        return None
    jars = sorted((pyspark / "jars").glob("*.jar"))
    parts = [str(home), *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)]
    if (release := home / "release").exists():
        parts.append(release.read_text())
    return "\n".join(parts)


def _run_stream(environment: dict[str, str]) -> str:
    """Return what was said."""
    from tests.rows.traces import random_trace
    from tests.spark.stream_traces import arrivals, write_arrivals

    trace = random_trace(0, 50, extremes=False, ties_by_arrival=False, until=False)
    with TemporaryDirectory() as folder:
        write_arrivals(Path(folder), arrivals(trace, 1, 190))
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.stream_driver", folder],
            cwd=ROOT,
            env=os.environ | environment,
            # The JVM writes the archive when it ends, and has the pipe open until then.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.stdout.decode()


if __name__ == "__main__":
    make()
