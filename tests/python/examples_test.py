"""Python in the documentation is true: it runs, and it prints what is said.

python3 examples_test.py write: docs/python.md says what is printed now.
"""

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


EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```\n(.*?)```\n", re.DOTALL)


def lines(text):
    """Without blanks at their ends, which editors strip; columns stand where they are printed."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


def folder_like_the_repository():
    folder = tempfile.TemporaryDirectory()
    os.mkdir(os.path.join(folder.name, "build"))
    os.symlink(SOURCE / "scenarios", os.path.join(folder.name, "scenarios"))
    return folder


def printed_by(page):
    """What each example of the page prints; each goes on where the last has ended."""
    here = os.getcwd()
    names = {}
    texts = []
    with folder_like_the_repository() as folder:
        os.chdir(folder)
        try:
            for code, _ in EXAMPLE.findall(read(page)):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(code, names)
                texts.append(printed.getvalue())
        finally:
            os.chdir(here)
    return texts


def write(page):
    texts = iter(printed_by(page))
    new = EXAMPLE.sub(
        lambda at: f"```python\n{at[1]}```\n\n```\n{next(texts).rstrip()}\n```\n", read(page)
    )
    (SOURCE / page).write_text(new, encoding="utf-8")


class Examples(unittest.TestCase):
    def test_the_examples_of_the_page_print_what_stands_below_them(self):
        page = "docs/python.md"
        examples = EXAMPLE.findall(read(page))
        self.assertEqual(len(examples), read(page).count("```python"))
        self.assertGreater(len(examples), 7)
        for (code, said), printed in zip(examples, printed_by(page)):
            self.assertEqual(lines(printed), lines(said), f"{code}\nsaid anew by ./dev notebook")

    def test_the_commands_of_readme_and_page_run(self):
        folder = folder_like_the_repository()
        self.addCleanup(folder.cleanup)
        for page in ("README.md", "docs/python.md"):
            (words,) = commands(page)
            done = subprocess.run(
                [sys.executable, *words],
                cwd=folder.name,
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
    if sys.argv[1:] == ["write"]:
        write("docs/python.md")
    else:
        support.main()
