"""Compile the modules that have a .pxd beside them; everything else is in pyproject.toml.

SOJOURN_PURE=1 builds without compiling. Where there is no C compiler the build goes on
without it too, unless SOJOURN_REQUIRE_COMPILED=1 asks for an error instead. A wheel that has
nothing compiled in it is named so: py3-none-any.
"""

import multiprocessing
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

SOURCE = Path("src")
SOURCES = [p for p in sorted(SOURCE.rglob("*.py")) if p.with_suffix(".pxd").exists()]


def asked(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


class BuildWhatIsThere(build):
    """Builds all, and nothing that is left of an earlier build."""

    def run(self) -> None:
        remove_stale(Path(self.build_lib))
        super().run()


def remove_stale(built: Path) -> None:
    """Remove what was made of sources that are gone since."""
    for path in sorted(built.rglob("*")):
        if path.is_file() and not has_source(path.relative_to(built)):
            path.unlink()


def has_source(built: Path) -> bool:
    if built.suffix in (".so", ".pyd"):  # module.cpython-311-x86_64-linux-gnu.so
        return (SOURCE / built.with_name(built.name.partition(".")[0] + ".pxd")).exists()
    return (SOURCE / built).exists()


class CompileOrGoWithout(build_ext):
    """Compile all modules or, if that fails, none: compiled ones need each other."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        if self.editable_mode:  # keep what was built, and build again only what changed
            self.build_lib, self.build_temp = "build/editable", "build/objects"

    def run(self) -> None:
        remove_stale(Path(self.build_lib))  # an editable install has no other command
        try:
            translate(self.extensions)
            super().run()
        except Exception as error:
            if asked("SOJOURN_REQUIRE_COMPILED"):
                raise
            print(f"sojourn is not compiled, and will run interpreted: {error}", file=sys.stderr)
            for extension in self.extensions:
                Path(self.build_lib, self.get_ext_filename(extension.name)).unlink(missing_ok=True)
            self.extensions = self.distribution.ext_modules = []
            if wheel := self.distribution.command_obj.get("bdist_wheel"):
                wheel.root_is_pure = True


def module_name(source: Path) -> str:
    return ".".join(source.relative_to(SOURCE).with_suffix("").parts)


def extension(source: Path) -> Extension:
    # Debugging symbols take longer to write than the code. Where functions start anywhere, a short
    # one may take half as long again as before, because another one before it has changed.
    arguments = [] if sys.platform == "win32" else ["-g0", "-falign-functions=32"]
    return Extension(module_name(source), [str(source)], extra_compile_args=arguments)


def processes() -> int:
    """How many translate to C at once; more than one only where a fork does not run this file."""
    forked = sys.platform == "linux" and multiprocessing.get_start_method() == "fork"
    return (os.cpu_count() or 0) if forked else 0


def translate(extensions: list[Extension]) -> None:
    """To C, where they are compiled: an sdist has the sources as they are."""
    from Cython.Build import cythonize

    translated = cythonize(
        [extension(Path(source)) for each in extensions for source in each.sources],
        build_dir="build/cython",
        nthreads=processes(),
        compiler_directives={
            "language_level": "3",
            # Types live in the .pxd files: an annotation in a .py speaks to people and mypy.
            "annotation_typing": False,
            "auto_pickle": False,
            "boundscheck": False,
            "initializedcheck": False,
            "wraparound": False,
        },
    )
    sources = {each.name: each.sources for each in translated}
    for each in extensions:
        each.sources = sources[each.name]


setup(
    ext_modules=[] if asked("SOJOURN_PURE") else [extension(source) for source in SOURCES],
    cmdclass={"build": BuildWhatIsThere, "build_ext": CompileOrGoWithout},
)
