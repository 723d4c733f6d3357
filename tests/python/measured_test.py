"""compare, validate and run give the command's documents, and end whole where they are ended."""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import support
from support import SMALL, TWO_STAGES, command, command_json, toml_of

import tandem

ANEW = ("late", "load", "_s", "error", "fraction", "ratio", "bubble", "overlap", "difference")


def shape(document):
    """The document with the type in place of what is measured anew each time."""
    if isinstance(document, dict):
        return {
            key: type(value).__name__
            if any(word in key for word in ANEW) and not isinstance(value, dict)
            else shape(value)
            for key, value in document.items()
            if key != "unreliable"
        }
    if isinstance(document, list):
        return [shape(each) for each in document]
    return type(document).__name__ if isinstance(document, float) else document


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.job = self.file("two.toml", toml_of(TWO_STAGES))

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        pathlib.Path(self.path(name)).write_text(text, encoding="utf-8")
        return self.path(name)

    def refused(self, call, expected, kind=tandem.InputError):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIn(expected, str(caught.exception))
        return caught.exception


class Compared(Files):
    def test_two_traces_are_compared_as_by_the_command(self):
        ours, theirs = self.path("a.csv"), self.path("b.csv")
        words = ["simulate", self.job, "--unfolded", "--trace"]
        command(*words, ours)
        command(*words, theirs, "--set", "variability.jitter=0.1")
        compared = tandem.compare(ours, pathlib.Path(theirs))
        self.assertEqual(compared.to_dict(), command_json("compare", ours, theirs))
        self.assertEqual(len(compared.worst), 10)
        self.assertNotEqual(compared.iteration_error, 0)
        few = tandem.compare(ours, theirs, worst=0)
        self.assertEqual(few.to_dict(), command_json("compare", ours, theirs, "--worst", "0"))
        self.assertRegex(str(compared), r"\niteration s +0\.0155 +0\.\d+ +-?\d")
        self.assertIn("exposed pipeline s", compared._repr_html_())
        self.assertIn("<tandem.Comparison: 0.0155 s against", repr(compared))

    def test_a_profile_stands_against_a_scenario_a_program_a_trace_and_profiles(self):
        profiles, trace, program = (self.path(name) for name in ("p", "t.csv", "program.csv"))
        slow = ["--set", "costs.forward_s=0.0015"]
        command("simulate", self.job, "--unfolded", "--kineto", profiles, *slow)
        command("simulate", self.job, "--unfolded", "--trace", trace)
        self.file("program.csv", command("schedule", self.job, "--format", "program"))
        for simulated in (self.job, trace, program, profiles):
            printed = command_json("compare", simulated, profiles)
            self.assertEqual(tandem.compare(simulated, profiles).to_dict(), printed, simulated)
        for words, more in (
            (["--engine", "ideal"], {"engine": "ideal"}),
            (slow, {"set": {"costs.forward_s": 0.0015}}),
            (["--only-passes", "0F3"], {"only_passes": "0F3"}),
            (["--set", "parallel.pp=1"], {"set": {"parallel.pp": 1}}),
        ):
            printed = command_json("compare", self.job, profiles, *words)
            compared = tandem.compare(self.job, profiles, **more)
            self.assertEqual(compared.to_dict(), printed, words)
        self.assertIn("is of another job", str(compared))
        self.assertIn(compared.notes[0], compared._repr_html_().replace("&#x27;", "'"))
        of_dict = tandem.compare(TWO_STAGES, profiles)
        self.assertEqual(of_dict.rows, tandem.compare(self.job, profiles).rows)
        self.assertRegex(str(of_dict), r"\ncompute s +0\.012 +0\.014 +-14\.3\n")

    def test_what_has_no_effect_or_cannot_be_compared_is_refused(self):
        profiles, trace = self.path("p"), self.path("t.csv")
        command("simulate", self.job, "--unfolded", "--kineto", profiles, "--trace", trace)
        for call, expected in (
            (lambda: tandem.compare(trace, trace, engine="ideal"), "found engine, expected it"),
            (lambda: tandem.compare(trace, trace, {"a.b": 1}), "found set, expected it with a sce"),
            (lambda: tandem.compare(trace, profiles, only="x"), "found only, expected it"),
            (lambda: tandem.compare(trace, trace, only_passes="0F0"), "expected it with a profile"),
            (lambda: tandem.compare(self.job, profiles, worst=3), "expected it with two traces on"),
            (lambda: tandem.compare(trace, trace, worst=-1), "worst: found -1, expected 0 to"),
            (lambda: tandem.compare(trace, self.job), f"{self.job}:"),
            (lambda: tandem.compare(TWO_STAGES, trace), "found no profile, expected one beside"),
            (lambda: tandem.compare(self.job, profiles, only_passes="F"), "passes: found 'F'"),
            (lambda: tandem.compare(3, trace), "a path or a dict"),
        ):
            self.refused(call, expected)
        error = self.refused(
            lambda: tandem.compare(TWO_STAGES, profiles, {"parallel.ppp": 2}), "parallel.pp"
        )
        self.assertEqual(error.key, "parallel.ppp")


class Validated(Files):
    def test_a_suite_is_validated_as_by_the_command(self):
        suite = self.file(
            "suite.toml",
            toml_of({**TWO_STAGES, "matrix": {"schedule.order": ["1f1b", "gpipe"]}}),
        )
        wide = {"validate.iteration_percent": 1000, "validate.bubble_points": 100}
        words = [f"--set={key}={value}" for key, value in wide.items()]
        printed = command_json("validate", suite, *words, "--iterations", "2")
        rows = tandem.validate(suite, wide, iterations=2)
        self.assertEqual(shape(rows.rows), shape(printed))
        simulated = [row["simulated_s"] for row in printed]
        self.assertEqual([row.simulated_s for row in rows.rows], simulated)
        self.assertEqual((len(rows), rows.failed), (2, 0))
        for row in rows.rows:  # no op is shorter than it is priced at
            self.assertGreaterEqual(row.measured_s, row.simulated_s)
        self.assertIn("schedule.order", rows.rows[0].axes[0])
        self.assertRegex(str(rows), r"\nschedule.order=1f1b +0\.0155 +0\.\d+ .* yes\n")

    def test_a_run_that_differs_by_too_much_is_told_beside_its_numbers(self):
        rows = tandem.validate(TWO_STAGES, {"validate.iteration_percent": 1e-9}, iterations=1)
        self.assertEqual((len(rows), rows.failed), (1, 1))
        self.assertRegex(str(rows), r" NO\n.*: iteration differs by -\d.* expected at most 1e-09")
        self.assertIn("iteration differs by", rows._repr_html_())

    def test_what_is_no_suite_of_this_machines_cores_is_refused(self):
        cases = str(support.SOURCE / "validation/published/cases.csv")
        overlap = str(support.SOURCE / "validation/overlap.toml")
        self.refused(lambda: tandem.validate(cases), "the command for them is tandem validate")
        error = self.refused(lambda: tandem.validate(overlap), 'validate.backend = "mpi"')
        self.assertEqual((error.key, error.file), ("validate.backend", overlap))
        self.assertIn("started by the command tandem validate", str(error))
        self.refused(lambda: tandem.validate(self.job, iterations=0), "iterations: found 0, expec")
        self.refused(lambda: tandem.validate(self.job, timeout_s=float("nan")), "timeout_s: found")
        self.refused(lambda: tandem.validate(self.job, only="none such"), "only: found no run")


class Run(Files):
    def test_a_run_has_the_document_of_the_command_and_its_events(self):
        (printed,) = command_json("run", self.job, "--iterations", "3", "--warmup", "0")
        real = tandem.run(self.job, iterations=3, warmup=0)
        self.assertEqual(shape(real.to_dict()), shape(printed))
        self.assertEqual((real.backend, real.iterations), ("host", 3))
        self.assertEqual(real.payloads_checked, printed["payloads_checked"])
        ideal = tandem.simulate(self.job, engine="ideal").iteration_s
        self.assertGreaterEqual(real.iteration_s, ideal)  # no op is shorter than it is priced at
        self.assertIn("emulated-compute: priced durations", str(real))
        self.assertIn("<svg", real._repr_html_())
        again = pickle.loads(pickle.dumps(real))
        self.assertEqual((type(again), again.to_dict()), (tandem.RealRun, real.to_dict()))
        try:
            trace = real.trace
        except tandem.MissingError:
            return
        self.assertAlmostEqual(trace["end_ns"].max() / 1e9, real.iteration_s, 12)
        self.assertEqual(len(trace), real.ops)

    def test_a_program_is_played_too(self):
        program = self.file("p.csv", command("schedule", self.job, "--format", "program"))
        (printed,) = command_json("run", program, "--iterations", "1")
        self.assertEqual(shape(tandem.run(program, iterations=1).to_dict()), shape(printed))
        self.refused(lambda: tandem.run(program, {"parallel.pp": 2}), "found a Program with set")

    def test_matrices_are_multiplied_as_by_the_command(self):
        sets = {"cluster.gpus": 2, "parallel.tp": 1, "parallel.dp": 1, "parallel.global_batch": 2}
        try:
            real = tandem.run(SMALL, sets, compute="gemm", gemm_scale=0.02, iterations=1)
        except tandem.MissingError as error:
            self.skipTest(str(error))
        self.assertEqual({times.stage for times in real.op_times}, {0, 1})
        self.assertIn("matrix products of 0.02 times the sizes", real.real)

    def test_bad_input_has_the_commands_words_and_place(self):
        many = str(support.SOURCE / "scenarios/megatron-sc21.toml")
        for call, expected in (
            (lambda: tandem.run(self.job, backend="mpi"), "the command tandem run --backend"),
            (lambda: tandem.run(self.job, compute="fast"), "compute: found 'fast', expected"),
            (lambda: tandem.run(self.job, gemm_scale=2), "expected compute='gemm' with it"),
            (lambda: tandem.run(self.job, warmup=-1), "warmup: found -1, expected 0 to 1000000"),
            (lambda: tandem.run(self.job, iterations=2.5), "iterations: found 2.5, expected 1"),
            (lambda: tandem.run(many), "choose it with only=..."),
            (lambda: tandem.run(self.path("none.toml")), "none.toml"),
        ):
            self.refused(call, expected)
        done = subprocess.run(
            [support.PROGRAM, "run", self.job, "--compute", "gemm"],
            capture_output=True,
            text=True,
            check=False,
        )
        error = self.refused(lambda: tandem.run(self.job, compute="gemm"), "found forward 0")
        self.assertEqual(str(error) + "\n", done.stderr)
        self.assertEqual((error.file, error.line), (self.job, 5))


class Ended(Files):
    def printed_after_ctrl_c(self, call, folder, writes):
        """What Python prints that calls, is sent Ctrl-C (where it `writes`, into a temporary
        folder: once it has), and then lists its children."""
        code = (
            f"import os, tandem\njob = {self.job!r}\n"
            f"try:\n  {call}\nexcept KeyboardInterrupt:\n  print('interrupted')\n"
            "print(repr(open(f'/proc/self/task/{os.getpid()}/children').read()))\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": folder},
        ) as child:
            self.assertTrue(support.starts_runs(child), call)
            until = time.monotonic() + 60
            while writes and not list(pathlib.Path(folder).rglob("tandem-*")):
                self.assertLess(time.monotonic(), until, call)
                time.sleep(0.01)
            of_child = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
            pids = of_child.read_text(encoding="ascii").split()
            child.send_signal(signal.SIGINT)
            printed = child.stdout.read()
            self.assertEqual(child.wait(), 0)
        for pid in pids:
            self.assertFalse(os.path.exists(f"/proc/{pid}"), call)
        return printed

    def test_ctrl_c_ends_a_run_and_a_suite_and_leaves_no_process_and_no_file(self):
        with tempfile.TemporaryDirectory() as temporary:
            for call, writes in (
                ("tandem.run(job, iterations=1_000_000)", False),
                ("tandem.validate(job, iterations=1_000_000)", True),
            ):
                printed = self.printed_after_ctrl_c(call, temporary, writes)
                self.assertEqual(printed, "interrupted\n''\n", call)
                self.assertEqual(os.listdir(temporary), [], call)

    def test_other_threads_go_on_and_nothing_is_printed_while_a_run_is_played(self):
        code = (
            "import threading, time, tandem\n"
            "ended, ticks = threading.Event(), []\n"
            "def tick():\n  while not ended.wait(0.01): ticks.append(time.monotonic())\n"
            "ticking = threading.Thread(target=tick)\nticking.start()\n"
            f"tandem.run({self.job!r}, iterations=50)\n"
            "ended.set()\nticking.join()\nprint(len(ticks) > 10)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))


class Stubs(Files):
    def test_the_stub_has_the_attributes_of_what_is_measured(self):
        from stubs_test import members, public, stub

        profiles, trace = self.path("p"), self.path("t.csv")
        command("simulate", self.job, "--unfolded", "--kineto", profiles, "--trace", trace)
        known = stub("__init__.pyi")
        for value in (
            tandem.compare(trace, trace),
            tandem.compare(self.job, profiles),
            tandem.validate(self.job, iterations=1),
        ):
            name = type(value).__name__
            self.assertEqual(members(known[name]), public(value), name)
        own = members(known["RealRun"])
        self.assertEqual(
            own | members(known["Result"]), public(tandem.run(self.job, iterations=1))
        )


if __name__ == "__main__":
    support.have_simgrid()
    support.main()
