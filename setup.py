"""What pyproject.toml cannot say: hot modules are compiled as they stand (docs/adr/0026), what
cannot be compiled is left out unless HEADRACE_REQUIRE_CODEC is set, and the README of a package has no
relative links."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

_ROOT = Path(__file__).parent
_HOT = runpy.run_path(str(_ROOT / "runtime" / "compiled_io.py"))
_absolute_links = runpy.run_path(str(_ROOT / "services" / "long_description.py"))["absolute_links"]
_built_of = _HOT["built_of"]
_TWINS = ("headrace.protocol.records._batch", "headrace.protocol.transport._multipart")
# by the module's name, relative to this folder
_SOURCES = {name: Path(*name.split(".")[1:]).with_suffix(".py") for name in sorted(_HOT["HOT_MODULES"])}


def _compiler() -> str:
    """The C compiler that would be called: of CC, or that of this Python."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]


class BuildExt(build_ext):
    """Builds what has changed. What cannot be compiled is left out: then its source is run. A source that
    changes while Cython reads it is left out too: the digest in the name would be of other code."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self._built = {name: _built_of(source) for name, source in _SOURCES.items()}
        self._is_required = bool(os.environ.get("HEADRACE_REQUIRE_CODEC"))

    def _add_hot_modules(self) -> None:
        """Order: when something is built, not when options are read, as for an sdist: it takes minutes."""
        from Cython.Build import cythonize

        is_in_place = self.editable_mode or self.inplace
        stale = [
            Extension(name, [str(source)], extra_compile_args=["-O2", "-g0"])
            for name, source in _SOURCES.items()
            if not (is_in_place and self._built[name].exists())
        ]
        for extension in self.distribution.ext_modules:
            extension.optional = not self._is_required
        known = {extension.name for extension in self.distribution.ext_modules}
        stale = [extension for extension in stale if extension.name not in known]
        made = cythonize(
            stale,
            build_dir="build/hot",
            nthreads=os.cpu_count() or 1,
            force=True,  # C code that is newer than its source may be of an earlier one
            language_level=3,
            compiler_directives={"annotation_typing": False},  # annotations are mypy's
        )
        for extension in made:
            extension.optional = True
            if _built_of(_SOURCES[extension.name]) == self._built[extension.name]:
                self.distribution.ext_modules.append(extension)
            else:
                self.warn(f"{_SOURCES[extension.name]} has changed meanwhile: build again")

    def run(self) -> None:
        # Without a C compiler the readable twins run (docs/adr/0058); Cython alone would take minutes.
        if self._is_required or shutil.which(_compiler()):
            self._add_hot_modules()
        else:
            self.warn(f"no C compiler: {_compiler()} is not on the PATH")
            self.distribution.ext_modules = []
        self.swig_opts = None
        super().finalize_options()  # of the added modules, too
        self.parallel = self.parallel or os.cpu_count()
        super().run()
        missing = [name for name in _TWINS if not Path(self.get_ext_fullpath(name)).exists()]
        if missing and not (self.editable_mode or self.inplace):
            self.warn(f"built without {', '.join(missing)}: headrace will run as Python, many times slower")
        for name, source in _SOURCES.items():
            built = self._built[name]
            # also where wheels are made of: it stays from one to the next
            for place in (built, Path(self.get_ext_fullpath(name))):
                if place.exists():
                    suffix = built.name.removeprefix(f"{source.stem}.").partition(".")[2]
                    for other in place.parent.glob(f"{source.stem}.*.{suffix}"):
                        if other.name != built.name:
                            other.unlink()  # of what the source was before

    def copy_file(self, infile: str, outfile: str, *args: Any, **options: Any) -> Any:
        """Whole or not at all: a build that is there is loaded, and not made again."""
        part = Path(f"{outfile}.new")
        part.unlink(missing_ok=True)
        done = super().copy_file(infile, str(part), *args, **options)
        part.replace(outfile)
        return done

    def get_ext_filename(self, fullname: str) -> str:
        """Under names that Python alone does not load."""
        if fullname not in _SOURCES:
            return str(super().get_ext_filename(fullname))
        return str(Path(*fullname.split(".")[:-1], self._built[fullname].name))

    def get_ext_fullpath(self, ext_name: str) -> str:
        """Where it is built."""
        if ext_name not in _SOURCES:
            return str(super().get_ext_fullpath(ext_name))
        return str(Path(self.build_lib, self.get_ext_filename(ext_name)))


setup(
    cmdclass={"build_ext": BuildExt},
    long_description=_absolute_links((_ROOT / "README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
