"""docs/tandem.ipynb runs from top to bottom, draws its pictures, and prints what is stored in it.

python3 notebook_test.py write: stores what it prints and draws now.
"""

import os
import sys
import tempfile
import unittest

import support
from support import SOURCE, have

PATH = str(SOURCE / "docs" / "tandem.ipynb")


def executed():
    import nbclient
    import nbformat

    book = nbformat.read(PATH, 4)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            {"IPYTHONDIR": folder, "JUPYTER_RUNTIME_DIR": folder, "JUPYTER_CONFIG_DIR": folder,
             "JUPYTER_DATA_DIR": folder, "MPLCONFIGDIR": folder,
             "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        )  # fmt: skip
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
    return book


def outputs(book):
    return [output for cell in book.cells for output in cell.get("outputs", [])]


def texts(book):
    """What the cells print, one after the other."""
    return "".join(output["text"] for output in outputs(book) if output.output_type == "stream")


def pictures(book):
    found = []
    for output in outputs(book):
        data = output.get("data", {})
        if "image/png" in data or "<svg" in data.get("text/html", ""):
            found.append(data)
    return found


class Notebook(unittest.TestCase):
    def test_it_runs_draws_four_pictures_and_prints_what_is_stored(self):
        import nbformat

        stored = nbformat.read(PATH, 4)
        now = executed()
        self.assertEqual(len(pictures(now)), 4)  # three questions, and a timeline
        self.assertEqual(len(pictures(stored)), 4)
        self.assertEqual(texts(now), texts(stored), "to store it anew: ./dev notebook")


    def test_a_notebook_shows_a_bar_of_a_sweeps_runs(self):
        import nbclient
        import nbformat

        sweep = {**support.TWO_STAGES, "matrix": {"parallel.global_batch": [2, 4, 6]}}
        code = (
            "import tandem, tandem.progress\n"
            "tandem.progress.PAUSE_S = 0\n"
            "tandem.progress.Progress.__exit__ = lambda *_: None  # leaves the bar\n"
            f"rows = tandem.sweep({sweep!r}, engine='ideal')"
        )
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
        (shown,) = outputs(book)
        self.assertEqual(
            shown["data"]["text/html"], '<progress value="3" max="3"></progress> 3 of 3 runs'
        )


def write():
    """Without what differs from one machine, or one time, to the next."""
    import nbformat

    book = executed()
    for cell in book.cells:
        cell.metadata.clear()
        if "outputs" in cell:
            # Bars that were wiped.
            cell.outputs = [o for o in cell.outputs if o.get("data", {}).get("text/html") != ""]
    book.metadata = {key: book.metadata[key] for key in ("kernelspec",)}
    book.metadata["language_info"] = {"name": "python"}
    nbformat.write(book, PATH)


if __name__ == "__main__":
    have("nbclient", "nbformat", "ipykernel", "matplotlib", "numpy")
    if sys.argv[1:] == ["write"]:
        write()
    else:
        support.have_simgrid()
        support.main()
