"""Python in the documentation is true: it runs, and it prints what is said."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

import support
from support import SOURCE, have

import tandem


def read(path):
    return (SOURCE / path).read_text(encoding="utf-8")


def commands(page):
    """The words of a page's commands for the Python of ./dev python."""
    found = re.findall(r"^ *(build/python/bin/python .*)$", read(page), flags=re.MULTILINE)
    return [shlex.split(line)[1:] for line in found]


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, "build"))
        os.symlink(SOURCE / "scenarios", os.path.join(self.folder.name, "scenarios"))

    def test_the_examples_of_the_page_print_what_stands_below_them(self):
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder.name)
        names = {}
        blocks = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```\n", read("docs/python.md"), re.S)
        self.assertEqual(len(blocks), read("docs/python.md").count("```python"))
        self.assertGreater(len(blocks), 7)
        for code, said in blocks:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(code, names)  # each goes on where the last has ended
            self.assertEqual(printed.getvalue().split(), said.split(), code)

    def test_the_commands_of_readme_and_page_run(self):
        for page in ("README.md", "docs/python.md"):
            (words,) = commands(page)
            done = subprocess.run(
                [sys.executable, *words],
                cwd=self.folder.name,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\d\.\d")

    def test_the_fields_of_an_event_are_documented_with_their_types(self):
        types = {"<i8": "int64", "<i4": "int32", "<i2": "int16", "<u2": "uint16", "u1": "uint8"}
        types["i1"] = "int8"
        rows = re.findall(r"^\| (`.*?`) \| (u?int\d+) \|", read("docs/python.md"), re.MULTILINE)
        told = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
        fields = tandem._tandem.record_fields()
        self.assertEqual(told, {name: types[code] for name, code in fields})


if __name__ == "__main__":
    have("numpy")
    support.have_simgrid()
    support.main()
