"""JVMs that start quickly: the tests start a dozen of Spark's, and each lives for a minute at most.

    python -m tests.spark.jvm

writes the archive of Spark's classes (class data sharing) where there is none yet; `make test` does
so first. A JVM that maps the archive need not find, parse and verify some ten thousand classes: it
starts a session with half the processor time. Nothing else depends on the archive.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.checkout import ROOT
from tests.rows.traces import random_trace
from tests.spark.stream_traces import arrivals, write_arrivals

# A JVM that lives for a minute has no use for its best compiler, nor for several collectors.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_ARCHIVES = ROOT / "build" / "jvm"


def quick_options() -> str:
    """Options for a JVM of Spark's, as Spark's settings take them."""
    archive = _archive()
    if archive is None or not archive.exists():
        return _QUICK
    # It says nothing of an archive that does not suit, as where an executor has other jars.
    return f'{_QUICK} "-XX:SharedArchiveFile={archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'


def _archive() -> Path | None:
    """Where it is: another one for another Java or other jars; None where one of them is not."""
    try:
        import pyspark

        from sojourn.spark.java import NoJava, find_java
    except ImportError:
        return None
    try:
        home = find_java(os.environ).home
    except NoJava:
        return None
    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    parts = [str(home), *(f"{jar} {jar.stat().st_mtime_ns}" for jar in jars)]
    if (release := home / "release").exists():
        parts.append(release.read_text())
    return _ARCHIVES / f"{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}.jsa"


def write_archive() -> None:
    """Run a small stream, and keep the classes that it took."""
    archive = _archive()
    if archive is None or archive.exists():
        return
    print(f"Spark's classes go to {archive.relative_to(ROOT)}, once", flush=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    unfinished = archive.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    options = f'{_QUICK} "-XX:ArchiveClassesAtExit={unfinished}" -Xlog:disable'
    trace = random_trace(0, 50, extremes=False, ties_by_arrival=False, until=False)
    with TemporaryDirectory() as folder:
        write_arrivals(Path(folder), arrivals(trace, 1, 190))
        command = [sys.executable, "-m", "tests.spark.stream_driver", folder, options]
        # The JVM writes the archive when it ends, and has the pipe open until then.
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
    if unfinished.exists():
        unfinished.rename(archive)
    else:
        print(f"there is none, so JVMs start as they always do:\n{done.stdout.decode()[-2000:]}")


if __name__ == "__main__":
    write_archive()
