"""Builds the Python package by CMake: `pip install .`.

TANDEM_BUILD names an existing build tree (build/release, say); without it one is made in
build/wheel. The package is all that CMake's component `python` installs: module, plugin, data.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent


class CMakeBuild(build_ext):
    def run(self):
        build = os.environ.get("TANDEM_BUILD")
        if build is None:
            build = ROOT / "build" / "wheel"
            options = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_TESTING=OFF"]
            options.append("-DTANDEM_PYTHON=REQUIRED")
            options.append(f"-DPython_EXECUTABLE={sys.executable}")
            try:
                options.append(f"-Dpybind11_DIR={__import__('pybind11').get_cmake_dir()}")
            except ImportError:
                pass  # CMake finds Debian's
            if shutil.which("ninja"):
                options += ["-G", "Ninja"]
            self.cmake("-S", ROOT, "-B", build, *options)
        self.cmake("--build", build, "--target", "tandem_python", "--parallel")
        shutil.rmtree(pathlib.Path(self.build_lib) / "tandem", ignore_errors=True)
        self.cmake("--install", build, "--component", "python", "--prefix", self.build_lib)
        module = self.get_ext_fullpath("tandem._tandem")
        if not os.path.exists(module):
            sys.exit(f"{build} was made for another Python: found no {os.path.basename(module)}")

    def cmake(self, *arguments):
        subprocess.run(["cmake", *map(str, arguments)], check=True)

    def get_outputs(self):
        folder = pathlib.Path(self.build_lib)
        return [str(path) for path in folder.rglob("*") if path.is_file()]


build = ROOT / "build"
build.mkdir(exist_ok=True)
setup(
    ext_modules=[Extension("tandem._tandem", [])],
    cmdclass={"build_ext": CMakeBuild},
    # All that is made on the way goes into build/.
    options={
        "build": {"build_base": str(build / "pip")},
        "egg_info": {"egg_base": str(build)},
    },
)
