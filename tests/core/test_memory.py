"""The random programs once more, where an access to memory that is not ours does not go unseen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import sojourn
from tests.checkout import ROOT
from tests.core import naive_progress, naive_purgatory
from tests.core.models import programs
from tests.seeds import seed

OUR_MODULES = str(Path(sojourn.__file__).parent)
# Each with its arguments after the seed: for a run of a second, and of minutes under valgrind.
PROGRAMS = {
    "wheels": (programs, ("40000",), ("8000",)),
    "purgatory": (naive_purgatory, ("60", "250"), ("18", "250")),
    "progress": (naive_progress, ("40", "250"), ("12", "250")),
}


def run(
    program: str, arguments: tuple[str, ...], *before: str, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the program, on the build of this suite."""
    module = PROGRAMS[program][0].__name__
    return subprocess.run(
        [*before, sys.executable, "-X", "faulthandler", "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7", **environment},
        capture_output=True,
        check=False,
        timeout=1800,
    )


of_the_compiled_build = pytest.mark.skipif(
    not sojourn.compiled, reason="the interpreted build has no memory of its own"
)


@of_the_compiled_build
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_goes_the_same_way_where_freed_memory_is_overwritten(program: str) -> None:
    arguments = (str(seed()), *PROGRAMS[program][1])
    usual = run(program, arguments)
    debug = run(program, arguments, PYTHONMALLOC="debug")
    assert (debug.returncode, debug.stderr) == (0, b""), debug.stderr.decode()
    assert len(debug.stdout.splitlines()) > 4_000
    assert debug.stdout == usual.stdout


@pytest.mark.nightly
@of_the_compiled_build
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("program", PROGRAMS)
def test_valgrind_finds_nothing_in_our_modules(program: str, tmp_path: Path) -> None:
    arguments = (str(seed()), *PROGRAMS[program][2])
    report = tmp_path / "valgrind.xml"
    checked = run(
        program,
        arguments,
        "valgrind",
        "--tool=memcheck",
        "--quiet",
        "--num-callers=20",
        "--xml=yes",
        f"--xml-file={report}",
        PYTHONMALLOC="malloc",  # so that valgrind knows every object
    )
    assert checked.returncode == 0, checked.stderr.decode()
    assert findings_in_ours(report) == []
    assert checked.stdout == run(program, arguments).stdout


def findings_in_ours(report: Path) -> list[str]:
    """What was found with a module of ours on the stack; CPython itself has some of its own."""
    findings = []
    for error in ET.parse(report).getroot().iter("error"):
        if str(error.findtext("kind")).startswith("Leak_"):
            continue  # at the end of the process, where CPython does not free everything
        frames = list(error.iter("frame"))
        if any(str(frame.findtext("obj")).startswith(OUR_MODULES) for frame in frames):
            stack = " < ".join(str(frame.findtext("fn")) for frame in frames[:8])
            findings.append(f"{error.findtext('kind')}: {stack}")
    return findings
