"""Builds the kernels of the native engine, where there is a C compiler; without one they are left out.

Everything else about the package stands in pyproject.toml.
"""

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

HERE = Path("redline/backends/native/kernels")


class Library(build_ext):
    """The library is plain C, called through ctypes: its name says nothing of Python."""

    def get_ext_filename(self, name: str) -> str:
        return name.replace(".", "/") + ".so"


class Wheel(bdist_wheel):
    """For the same reason one wheel serves every Python of a platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


omp = [] if sys.platform == "darwin" else ["-fopenmp"]  # Apple's compiler has none; torch's threads rest then
setup(
    cmdclass={"build_ext": Library, "bdist_wheel": Wheel},
    ext_modules=[
        Extension(
            "redline.backends.native.kernels._kernels",
            sources=[str(path) for path in sorted(HERE.glob("*.c"))],
            depends=[str(path) for path in sorted(HERE.glob("*.h"))],
            # A product and a sum that are written apart are rounded apart, in every variant.
            extra_compile_args=["-std=c11", "-O3", "-g0", "-ffp-contract=off", *omp],
            extra_link_args=omp,
            libraries=["m"],
            optional=True,
        )
    ],
)
