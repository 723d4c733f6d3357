"""pip installs the module without a network, in an environment that sees Debian's packages, and
what it installed runs where no source tree is."""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import support
from support import GPTS, SOURCE, command_json, have, skip, timeless


def pip_environment():
    """No search path, no proxy: nothing but what is here."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TANDEM"))}
    return {**environment, "TANDEM_BUILD": str(support.BUILD), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        venv = cls.folder / "venv"
        words = [sys.executable, "-m", "venv", "--system-site-packages", venv]
        subprocess.run(words, check=True, capture_output=True, env=pip_environment())
        cls.python = venv / "bin" / "python"
        words = [cls.python, "-m", "pip", "install", "--no-build-isolation", "--no-index", SOURCE]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=pip_environment()
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (cls.package,) = glob.glob(f"{venv}/lib/python3*/site-packages/tandem")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_python(self, code):
        done = subprocess.run(
            [self.python, "-c", code],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env={k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TANDEM"))},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_simulates_by_simgrid_what_it_brought_along(self):
        (printed,) = command_json("simulate", GPTS, "--only", "1.7B, selene")
        code = (
            "import json, tandem\n"
            "path = tandem.data_dir() / 'scenarios' / 'megatron-sc21.toml'\n"
            "result = tandem.simulate(path, only='1.7B, selene')\n"
            "print(json.dumps(result.to_dict()))\n"
        )
        self.assertEqual(timeless(json.loads(self.run_python(code))), timeless(printed))

    def test_its_data_and_plugin_are_in_its_own_folder(self):
        printed = self.run_python("import tandem; print(tandem.__file__, tandem.data_dir())")
        for path in printed.split():
            self.assertTrue(path.startswith(self.package), path)
        for name in ("py.typed", "__init__.pyi", "data/topology/presets/selene.toml"):
            self.assertTrue(os.path.exists(os.path.join(self.package, name)), name)

    def test_pip_knows_every_file_and_takes_all_away_again(self):  # the last, by its name
        words = [self.python, "-m", "pip", "show", "--files", "tandem"]
        files = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        self.assertIn("tandem/data/scenarios/megatron-sc21.toml", files)
        words = [self.python, "-m", "pip", "uninstall", "--yes", "tandem"]
        subprocess.run(words, check=True, capture_output=True)
        left = [path for path in pathlib.Path(self.package).rglob("*") if path.suffix != ".pyc"]
        self.assertEqual([path for path in left if path.is_file()], [])


if __name__ == "__main__":
    have("venv", "ensurepip", "setuptools", "wheel")
    if shutil.which("cmake") is None:
        skip("no cmake")
    support.have_simgrid()
    support.main()
