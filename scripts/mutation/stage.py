"""Two ways to put a mutant where its module was, in a trial's process.

`fresh`: the process has imported pytest and all that the tests import, except what is ours. The
changed source is used when the module is imported, pytest collects, and the tests run. It serves
every mutant, and takes half a second.

`Stage`: a process in which pytest has collected the tests of the module as it is, and waits. A
trial forks from there and gives the functions that differ their new code. Nothing has to be
imported or collected again, so most mutants are settled within milliseconds. It serves what is
inside a function that has not been called yet at that point.

In both, other processes that a test starts import the mutant too, by a `sitecustomize` module.
"""

from __future__ import annotations

import builtins
import gc
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType

import pytest

from .reach import NOTE
from .trial import ELSEWHERE, FLAKY, Judge, Trial

_OPTIONS = ["-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
# For what we have imported before pytest could.
_OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


def warm_up(names: Iterable[str]) -> None:
    """Import what the tests will import, so that no trial has to."""
    for name in names:
        if name not in sys.modules:
            with suppress(Exception):  # then the trials import it themselves, or do without
                importlib.import_module(name)
    _find_and_do_not_shrink()
    gc.collect()
    gc.freeze()


def _find_and_do_not_shrink() -> None:
    """Let hypothesis stop at the first example that fails, and not look at those of before."""
    with suppress(ImportError):
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", phases=phases, database=None, deadline=None)
        settings.load_profile("mutants")


def fresh(root: Path, left_out: Iterable[str]) -> Callable[[Trial, Judge], None]:
    """Return what runs a trial in a process that has nothing of ours imported.

    `left_out` are ids of tests, or how they begin.
    """
    options = [*_OPTIONS, f"--rootdir={root}", *(f"--deselect={test}" for test in left_out)]

    def begin(trial: Trial, judge: Judge) -> None:
        os.chdir(root)
        before = set(sys.modules)
        hook = _pass_on(trial, judge.folder)
        exec(hook, {})
        setattr(builtins, NOTE, judge.lines.add)
        os.register_at_fork(after_in_child=partial(_note_at_once, judge.folder))
        most = 1 if trial.tests is not None else FLAKY + 1
        code = pytest.main([*options, f"--maxfail={most}", *trial.files], plugins=[judge])
        imported = [name for name in set(sys.modules) - before if not _is_in(root, name)]
        judge.tell({"exit": int(code), "imported": sorted(imported)})

    return begin


class Stage:
    """A pytest plugin: runs trials where pytest would run the tests that it has collected."""

    def __init__(self, module: str, source: str) -> None:
        self._module = module
        self._codes = _functions(compile(source, module, "exec"))
        self._live: dict[tuple[str, int], list[FunctionType]] = {}
        self._session: pytest.Session | None = None
        self._work: Callable[[], None] | None = None

    def play(self, root: Path, files: Iterable[str], work: Callable[[], None]) -> None:
        """Collect, call `work` in a process of its own, and wait until it is done.

        `work` runs trials that begin with `begin`.
        """
        self._work = work
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.chdir(root)
                options = [*_OPTIONS, "--quiet", "--quiet", "--no-summary", f"--rootdir={root}"]
                code = int(pytest.main([*options, *files], plugins=[self]))
                sys.stdout.flush()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{self._module}: the run of its mutants broke off; see above")

    def can_take(self, trial: Trial) -> bool:
        """Whether the trial differs only inside functions, which close over the same names."""
        changes = self._changes(trial)
        return bool(changes) and all(old.co_freevars == new.co_freevars for old, new in changes)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        assert self._work is not None
        self._session = session
        path = sys.modules[self._module].__file__
        gc.unfreeze()  # the tests' own set-up freezes what was imported, which hides it
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename == path:
                place = (thing.__code__.co_qualname, thing.__code__.co_firstlineno)
                self._live.setdefault(place, []).append(thing)
        gc.freeze()
        self._work()
        return True

    def begin(self, trial: Trial, judge: Judge) -> None:
        """Run a trial's tests, in its process."""
        session = self._session
        assert session is not None
        _pass_on(trial, judge.folder)
        for old, new in self._changes(trial):
            for function in self._live[old.co_qualname, old.co_firstlineno]:
                function.__code__ = new
        items = judge.chosen(session.items)
        session.config.pluginmanager.register(judge)
        for n, item in enumerate(items):
            following = items[n + 1] if n + 1 < len(items) else None
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                break
        judge.tell({"exit": int(session.testsfailed > 0 or not items), "imported": []})

    def _changes(self, trial: Trial) -> list[tuple[CodeType, CodeType]]:
        """The functions that differ: the old code, and the new."""
        codes = _functions(compile(trial.source, self._module, "exec"))
        return [(old, new) for old, new in zip(self._codes, codes, strict=True) if old != new]


def _functions(code: CodeType) -> list[CodeType]:
    """The code of all functions of a module and its classes, in order; not of those inside."""
    return list(_walk(code))


def _walk(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & inspect.CO_OPTIMIZED:
                yield constant
            else:  # the body of a class
                yield from _walk(constant)


def _note_at_once(folder: Path) -> None:
    """Have this process, which may end in any way, write down the lines as it reaches them."""
    reached: set[int] = set()
    path = folder / f"{ELSEWHERE}{os.getpid()}"

    def note(line: int) -> None:
        if line not in reached:
            reached.add(line)
            with path.open("a") as file:
                file.write(f"{line}\n")

    setattr(builtins, NOTE, note)


_HOOK = """
import atexit, builtins, os
from importlib.machinery import SourceFileLoader

own, lines = SourceFileLoader.get_code, set()

def get_code(self, name):
    return compile({source!r}, name, "exec") if name == {module!r} else own(self, name)

def tell():
    if lines and os.getpid() != {pid}:
        with open(os.path.join({folder!r}, f"{elsewhere}{{os.getpid()}}"), "w") as file:
            file.write("\\n".join(map(str, lines)))

SourceFileLoader.get_code = get_code  # whoever finds the module, this is what it is
builtins.{note} = lines.add
atexit.register(tell)
"""


def _pass_on(trial: Trial, folder: Path) -> str:
    """See to it that processes started from here import the mutant; return the code that does so.

    It is run by each process as it starts.
    """
    hook = _HOOK.format(
        source=trial.source,
        module=trial.module,
        pid=os.getpid(),
        folder=str(folder),
        elsewhere=ELSEWHERE,
        note=NOTE,
    )
    (folder / "sitecustomize.py").write_text(hook)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else str(folder)
    return hook


def _is_in(root: Path, name: str) -> bool:
    spec = getattr(sys.modules[name], "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin is None or not Path(origin).is_absolute():
        return spec is None  # made by hand: nobody can import it
    path = Path(origin)
    return path.is_relative_to(root) and "site-packages" not in path.parts
