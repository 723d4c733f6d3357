"""The stubs (.pyi) say what the module has: every name, parameter, default and attribute."""

import ast
import inspect
import pathlib
import re
import tomllib
import unittest

import support
from support import PURCHASE, SMALL

import tandem
from tandem import _tandem

FOLDER = pathlib.Path(tandem.__file__).parent


def stub(name):
    """The classes and functions of a stub, by name."""
    tree = ast.parse((FOLDER / name).read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return found


def members(node):
    names = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign)]
    names += [n.name for n in node.body if isinstance(n, ast.FunctionDef)]
    return {name for name in names if not name.startswith("_")}


def parameters(node):
    """(name, whether by name only, default) of each."""
    args = node.args
    first = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    rows = [(a.arg, False, d) for a, d in zip(args.args, first)]
    rows += [(a.arg, True, d) for a, d in zip(args.kwonlyargs, args.kw_defaults)]
    return [(name, only, None if d is None else (ast.literal_eval(d),)) for name, only, d in rows]


def public(value):
    return {name for name in dir(value) if not name.startswith("_")}


class Package(unittest.TestCase):
    def setUp(self):
        self.stub = stub("__init__.pyi")

    def test_it_has_the_public_names_and_what_they_are_made_of(self):
        parts = {"Numbers", "ByGroup", "ShareByGroup", "Memory", "FoundOrder", "__version__"}
        self.assertEqual(set(self.stub) - parts, set(tandem.__all__))

    def test_functions_have_its_parameters_and_defaults(self):
        seen = 0
        for name, node in self.stub.items():
            if not isinstance(node, ast.FunctionDef):
                continue
            mine = [
                (p.name, p.kind is p.KEYWORD_ONLY, None if p.default is p.empty else (p.default,))
                for p in inspect.signature(getattr(tandem, name)).parameters.values()
            ]
            self.assertEqual(parameters(node), mine, name)
            self.assertTrue(getattr(tandem, name).__doc__)
            seen += 1
        self.assertEqual(seen, 12)

    def test_a_result_has_its_attributes(self):
        result = tandem.simulate(SMALL)
        node = self.stub["Result"]
        self.assertEqual(members(node), public(result))
        stated = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        types = {n.target.id: ast.unparse(n.annotation) for n in stated}
        for name in ("exposed_s", "comm_s", "sent_bytes", "overlap_fraction", "memory_bytes"):
            of = self.stub[types[name].removesuffix(" | None")]
            self.assertEqual(members(of), set(getattr(result, name)), name)
        simple = {"int": int, "float": float, "str": str, "bool": bool, "None": type(None)}
        for name, words in types.items():
            kinds = tuple(simple[w] for w in words.split(" | ") if w in simple)
            if kinds and len(kinds) == len(words.split(" | ")):
                self.assertIsInstance(getattr(result, name), kinds, name)

    def test_the_other_classes_have_their_attributes(self):
        tuned = tandem.tune(
            SMALL, among={"parallel.tp": 2, "schedule.order": "1f1b"}, engine="ideal", keep=1
        )
        sized = tandem.size(PURCHASE, among={"parallel.tp": 2}, engine="ideal")
        sweep = tandem.sweep(SMALL, engine="ideal")
        order = tandem.schedule(order="1f1b", pp=2, microbatches=2)
        for value in (tuned, tuned.best[0], sized, sized.candidates[0], sweep, order):
            name = type(value).__name__
            known = members(self.stub[name])
            self.assertEqual(known, public(value), name)
        self.assertLessEqual(members(self.stub["Results"]), public(tandem.Results([])))


class Compiled(unittest.TestCase):
    def test_its_stub_has_its_names_and_parameters(self):
        known = stub("_tandem.pyi")
        self.assertEqual({n for n in known if not n.startswith("_")}, public(_tandem))
        for name, node in known.items():
            if not isinstance(node, ast.FunctionDef):
                continue
            # pybind11 writes the signature first: "name(call: ..., trace: bool) -> ..."
            words = getattr(_tandem, name).__doc__.split(" -> ")[0]
            mine = re.findall(r"[(,]\s*(\w+): ", words)
            self.assertEqual([row[0] for row in parameters(node)], mine, name)

    def test_its_version_is_the_packages(self):
        project = tomllib.loads((support.SOURCE / "pyproject.toml").read_text(encoding="utf-8"))
        self.assertEqual(project["project"]["version"], tandem.__version__)


if __name__ == "__main__":
    support.have_simgrid()
    support.main()
