"""The module gives the program's numbers, events and pictures, and says where bad input stands."""

import csv
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import support
from support import GPTS, PURCHASE, SMALL, TWO_STAGES, command, command_json, timeless, toml_of

import tandem


class SameAsTheProgram(unittest.TestCase):
    def test_every_number_of_a_run_is_that_of_simulate_json(self):
        for engine in ("simgrid", "ideal"):
            words = ["simulate", GPTS, "--only", "1.7B, selene", "--engine", engine]
            (printed,) = command_json(*words)
            result = tandem.simulate(GPTS, only="1.7B, selene", engine=engine)
            self.assertEqual(timeless(result.to_dict()), timeless(printed))
            self.assertEqual(result.exposed_s.tensor, printed["exposed_s"]["tensor"])

    def test_set_is_the_set_of_the_program(self):
        words = ["--set", "parallel.global_batch=1024", "--set", "schedule.order=gpipe"]
        (printed,) = command_json("simulate", GPTS, "--only", "1.7B, selene", *words)
        settings = {"parallel": {"global_batch": 1024}, "schedule.order": "gpipe"}
        result = tandem.simulate(GPTS, settings, only="1.7B, selene", trace=False)
        self.assertEqual(timeless(result.to_dict()), timeless(printed))

    def test_all_runs_are_those_of_the_program(self):
        printed = command_json("simulate", GPTS, "--only", "1.7B")
        results = tandem.simulate_all(GPTS, only="1.7B", jobs=2)
        self.assertEqual([timeless(r.to_dict()) for r in results], timeless(printed))
        self.assertIs(results["1.7B, selene"], results[0])

    def test_a_dict_is_the_file_that_says_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "scenario.toml"
            path.write_text(toml_of(SMALL), encoding="utf-8")
            from_file = tandem.simulate(path)
        self.assertEqual(timeless(tandem.simulate(SMALL).to_dict()), timeless(from_file.to_dict()))

    def test_variants_and_a_matrix_of_a_dict_are_its_runs(self):
        matrix = {"parallel": {"micro_batch": [1, 2]}, "cluster.preset": ["selene", "dgx-h100"]}
        variants = [{"name": "short", "model": {"seq": 256}}, {"name": "long", "model.seq": 1024}]
        results = tandem.simulate_all({**SMALL, "matrix": matrix, "variant": variants})
        self.assertEqual(len(results), 8)
        first = "parallel.micro_batch=1, cluster.preset=selene, short"
        self.assertEqual(results[0].name, first)
        alone = tandem.simulate(SMALL, {"model.seq": 256})
        self.assertEqual(results[0].iteration_s, alone.iteration_s)

    def test_a_program_is_played_as_the_program_plays_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.csv")
            text = command("schedule", GPTS, "--only", "1.7B, selene", "--format", "program")
            pathlib.Path(path).write_text(text, encoding="utf-8")
            (printed,) = command_json("simulate", path)
            self.assertEqual(timeless(tandem.simulate(path).to_dict()), timeless(printed))
            with self.assertRaisesRegex(tandem.InputError, "expected 'ideal'"):
                tandem.simulate(path, engine="simgrid")

    def test_the_live_page_is_that_of_the_program(self):
        result = tandem.simulate(GPTS, only="1.7B, selene", trace=False)
        try:
            page = result.show(height=700)
        except tandem.MissingError as error:
            self.skipTest(str(error))
        with tempfile.TemporaryDirectory() as folder:
            printed = pathlib.Path(folder) / "printed.html"
            saved = pathlib.Path(folder) / "saved.html"
            words = ["--only", "1.7B, selene", "--report", str(printed), "--live"]
            command("simulate", GPTS, *words)
            page.save(saved)
            texts = [path.read_text(encoding="utf-8") for path in (printed, saved)]
        first, second = (re.sub(r'"engine_wall_s":[^,]+', "", text) for text in texts)
        self.assertEqual(first, second)
        self.assertRegex(page._repr_html_(), r'of simgrid.*<iframe srcdoc="[^"]+" .*height:700px')
        with self.assertRaisesRegex(tandem.InputError, "tandem.simulate"):
            pickle.loads(pickle.dumps(result)).show()

    def test_an_explanation_is_that_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["--set", "variability.straggler_ranks=[1]"]
            words += ["--set", "variability.straggler_factor=1.3", "--engine", "ideal"]
            job, profiles = os.path.join(folder, "two.toml"), os.path.join(folder, "profiles")
            pathlib.Path(job).write_text(toml_of(TWO_STAGES), encoding="utf-8")
            command("simulate", job, "--unfolded", "--kineto", profiles, *words)
            printed = command_json("explain", job, profiles, "--engine", "ideal")
            explanation = tandem.explain(TWO_STAGES, profiles)
        self.assertEqual(explanation.to_dict(), printed)
        self.assertRegex(explanation.causes[0].what, "^rank 1: its kernels take 1.3 times as long")
        self.assertIn("measured iteration", str(explanation))
        with self.assertRaisesRegex(tandem.InputError, "found no file"):
            tandem.explain(TWO_STAGES, [])

    def test_a_sweep_has_the_rows_of_the_program(self):
        scenario = str(support.SOURCE / "scenarios/nemo-pipeline.toml")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.csv")
            command("sweep", scenario, "-o", path, "--engine", "ideal")
            told = []
            mine = os.path.join(folder, "m.csv")
            swept = tandem.sweep(
                scenario, output=mine, engine="ideal", progress=lambda *news: told.append(news)
            )
            printed = pathlib.Path(path).read_text(encoding="utf-8")
            self.assertEqual(pathlib.Path(mine).read_text(encoding="utf-8"), printed)
            again = tandem.sweep(scenario, output=mine, engine="ideal")
        self.assertEqual(told[-1], (len(swept), len(swept)))
        self.assertEqual((again.kept, again.rows), (len(swept), swept.rows))
        self.assertIsInstance(swept.rows[0]["iteration_s"], float)

    def test_a_name_that_looks_like_a_number_stays_a_name(self):
        swept = tandem.sweep(
            {**TWO_STAGES, "variant": [{"name": "1e3"}, {"name": "2", "parallel.global_batch": 2}]}
        )
        self.assertEqual([row["name"] for row in swept.rows], ["1e3", "2"])
        formula = tandem.sweep({**TWO_STAGES, "variant": [{"name": "=1+1"}, {"name": "'-x"}]})
        self.assertEqual([row["name"] for row in formula.rows], ["=1+1", "'-x"])
        self.assertNotIn("checksum", formula.rows[0])
        self.assertEqual([row["parallel.global_batch"] for row in swept.rows], [4, 2])
        texts = ["1_000", "nan", "inf", "1.5e3", "007", "x"]
        published = tandem.sweep(
            {
                **TWO_STAGES,
                "variant": [{"name": f"v{t}", "published.cluster": t} for t in texts],
            }
        )
        self.assertEqual(
            [row["published.cluster"] for row in published.rows],
            texts,
        )
        names = ["true", "1e5", "-5"]
        named = tandem.sweep({**TWO_STAGES, "variant": [{"name": name} for name in names]})
        self.assertEqual([row["points"] for row in named.rows], names)
        self.assertIsNone(swept.path)

    def test_a_search_finds_the_plans_of_the_program(self):
        among = ["parallel.tp=4,8", "schedule.order=1f1b", "train.zero=1", "overlap.tensor=off"]
        words = [word for text in among for word in ("--among", text)]
        printed = command_json("tune", GPTS, "--only", "1.7B, selene", *words)
        choice = {
            "parallel.tp": [4, 8],
            "schedule.order": "1f1b",
            "train.zero": 1,
            "overlap.tensor": ["off"],
        }
        told = []
        tuned = tandem.tune(
            GPTS, only="1.7B, selene", among=choice, seconds=1000, progress=told.append
        )
        self.assertEqual((tuned.complete, tuned.gap), (True, 0))
        self.assertEqual(timeless(tuned.to_dict()), timeless(printed))
        self.assertIn(tuned.best[0].plan["parallel.tp"], (4, 8))
        self.assertTrue(told)
        best = tandem.simulate(GPTS, tuned.best[0].plan, only="1.7B, selene", trace=False)
        self.assertEqual(best.iteration_s, tuned.best[0].result.iteration_s)

    def test_a_search_for_a_framework_counts_its_trainer_as_the_program_does(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scenario.toml")
            pathlib.Path(path).write_text(toml_of(SMALL), encoding="utf-8")
            printed = command_json("tune", path, "--framework", "fsdp", "--among", "train.zero=3")
        tuned = tandem.tune(SMALL, framework="fsdp", among={"train.zero": 3})
        self.assertEqual(timeless(tuned.to_dict()), timeless(printed))

    def test_a_search_goes_on_where_the_own_plan_is_refused(self):
        among = {"parallel.tp": [1, 2], "schedule.order": "1f1b", "train.zero": 1}
        tuned = tandem.tune(SMALL, {"parallel.tp": 3}, among=among)
        self.assertIsNone(tuned.own)
        self.assertTrue(tuned.own_refused)
        self.assertIn(tuned.best[0].plan["parallel.tp"], (1, 2))

    def test_a_sizing_is_that_of_the_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scenario.toml")
            pathlib.Path(path).write_text(toml_of(PURCHASE), encoding="utf-8")
            printed = command_json("size", path, "--among", "parallel.tp=1,2")
        sized = tandem.size(PURCHASE, among={"parallel.tp": [1, 2]})
        self.assertEqual(timeless(sized.to_dict()), timeless(printed))
        costs = [one.economics.cost for one in sized.candidates]
        self.assertEqual(costs, [one["economics"]["cost"] for one in printed["sized"]])
        (taken,) = sized.recommended.values()
        self.assertEqual(taken.economics.cost, min(costs))

    def test_orders_are_those_of_the_program(self):
        words = ["--order", "zbv", "--pp", "4", "--microbatches", "8", "--costs", "2,2,1"]
        order = tandem.schedule(order="zbv", pp=4, microbatches=8, costs=(2, 2, 1))
        self.assertEqual(order.grid, command("schedule", *words))
        self.assertEqual(order.text, command("schedule", *words, "--format", "pytorch"))
        self.assertEqual(order.ranks[0][0], "0F0")
        self.assertIn("zbv", tandem.orders())
        scenario = tandem.schedule(GPTS, only="76B, selene")
        self.assertEqual(scenario.grid, command("schedule", GPTS, "--only", "76B, selene"))

    def test_an_order_of_rows_is_that_of_the_file_with_these_cells(self):
        rows = [["0F0", "0F1", "0B0", "", "0B1"], (" 1F0 ", "1B0", None, "1F1", "1B1")]
        order = tandem.schedule(order=rows, costs=(1, 1, 2))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.csv"
            path.write_text(order.text, encoding="utf-8")
            self.assertEqual(order.grid, command("schedule", str(path), "--costs", "1,1,2"))
            for file in (path, str(path)):
                read = tandem.schedule(order=file, costs=(1, 1, 2))
                self.assertEqual((read.grid, read.name), (order.grid, "mine"))
        self.assertEqual(order.ranks, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
        self.assertEqual((order.name, order.pp, order.microbatches), ("rows", 2, 2))
        self.assertEqual(tandem.schedule(order=order.ranks).text, order.text)
        bare = [[cell and cell.strip()[1:] for cell in row] for row in rows]
        self.assertEqual(tandem.schedule(order=bare).ranks, order.ranks)

    def test_an_order_of_two_chains_says_so_in_its_first_row_as_in_a_file(self):
        dualpipe = tandem.schedule(order="dualpipe", pp=4, microbatches=8)
        again = tandem.schedule(order=[["# chains: 2"], *dualpipe.ranks])
        self.assertEqual((again.grid, again.text), (dualpipe.grid, dualpipe.text))

    def test_an_order_of_primus_is_read_as_a_scenario_reads_it(self):
        words = ["--order", "zbv", "--pp", "2", "--microbatches", "4"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "patches.py"
            path.write_text(command("schedule", *words, "--format", "primus"), encoding="utf-8")
            self.assertEqual(tandem.schedule(order=path).grid, command("schedule", *words))


class Events(unittest.TestCase):
    def setUp(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        self.numpy = numpy

    def test_events_are_the_rows_of_the_trace_file_in_its_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.csv")
            command("simulate", GPTS, "--only", "1.7B, selene", "--trace", path)
            with open(path, encoding="utf-8") as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        result = tandem.simulate(GPTS, only="1.7B, selene")
        trace = result.trace
        self.assertEqual(len(trace), len(rows))
        for name in rows[0]:
            if name == "lane":
                mine = [result.lanes[i] for i in trace[name]]
            elif name == "kind":
                mine = [result.kinds[i] for i in trace[name]]
            else:
                mine = [str(number) for number in trace[name]]
            self.assertEqual(mine, [row[name] for row in rows], name)

    def test_the_array_is_a_view_of_the_memory_that_was_written_and_outlives_the_result(self):
        trace = tandem.simulate(TWO_STAGES).trace
        self.assertFalse(trace.flags.owndata)
        self.assertFalse(trace.flags.writeable)
        self.assertEqual(trace.dtype.itemsize, 56)
        # Four microbatches of 1 + 2 ms.
        compute = trace[(trace["rank"] == 0) & (trace["group"] == -1)]
        self.assertEqual((compute["end_ns"] - compute["start_ns"]).sum(), 12_000_000)

    def test_a_data_frame_has_names_in_place_of_numbers(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        frame = tandem.simulate(SMALL).to_pandas()
        self.assertEqual(set(frame["group"].dropna()), {"tensor", "pipeline", "data"})
        self.assertIsInstance(frame["kind"].dtype, pandas.CategoricalDtype)
        runs = tandem.simulate_all(GPTS, only="1.7B").to_pandas()
        self.assertIn("exposed_s.tensor", runs.columns)

    def test_settings_may_be_numpys(self):
        numpy = self.numpy
        mine = {"parallel.pp": numpy.array(2), "overlap.p2p": numpy.bool_(True)}
        self.assertEqual(
            tandem.simulate(TWO_STAGES, mine).iteration_s,
            tandem.simulate(TWO_STAGES, {"overlap.p2p": True}).iteration_s,
        )
        among = {"parallel.tp": numpy.array([1, 2]), "schedule.order": "1f1b", "train.zero": 1}
        self.assertIn(tandem.tune(SMALL, among=among).best[0].plan["parallel.tp"], (1, 2))

    def test_a_run_without_its_events_says_so(self):
        result = tandem.simulate(TWO_STAGES, trace=False)
        with self.assertRaisesRegex(tandem.InputError, "without its events"):
            result.trace


class Looks(unittest.TestCase):
    def test_a_notebook_shows_a_table_and_the_timeline(self):
        result = tandem.simulate(SMALL)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.toml")
            pathlib.Path(path).write_text(toml_of(SMALL), encoding="utf-8")
            plot = os.path.join(folder, "t.svg")
            command("simulate", path, "--plot", plot)
            drawn = pathlib.Path(plot).read_text(encoding="utf-8")
        # All but the title, which has the run's name.
        self.assertEqual(result.timeline_svg.replace(">scenario<", ">s<"), drawn)
        html = result._repr_html_()
        self.assertIn("<table>", html)
        self.assertIn("<svg", html)
        self.assertIn(f"{result.iteration_s:.4g}", html)

    def test_too_many_ranks_for_a_picture_are_a_table_and_a_reason(self):
        result = tandem.simulate(SMALL, {"parallel.dp": 40, "cluster.gpus": 160,
                                         "parallel.global_batch": 320}, unfolded=True)
        self.assertNotIn("<svg", result._repr_html_())
        self.assertIn("expected at most 64 ranks", result._repr_html_())
        with self.assertRaises(tandem.RunError):
            result.timeline_svg

    def test_names_are_escaped(self):
        results = tandem.simulate_all({**SMALL, "variant": [{"name": "<b>&"}]})
        self.assertIn("&lt;b&gt;&amp;", results._repr_html_())

    def test_a_run_can_be_pickled_without_its_events(self):
        result = tandem.simulate(TWO_STAGES)
        self.assertEqual(pickle.loads(pickle.dumps(result)).to_dict(), result.to_dict())

    def test_a_search_without_a_best_plan_shows_itself(self):
        own = {"plan": {}, "stage_level_s": None, "error": "too large"}
        tuned = tandem.Tuned(tandem.results.Numbers(best=[], own=own, enumerated=3))
        self.assertEqual(repr(tuned), "<tandem.Tuned: 3 plans, no best one>")


class Faults(unittest.TestCase):
    def test_a_fault_in_a_file_has_its_key_file_and_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.toml")
            text = "[parallel]\npp = 2\nglobal_batch = 4\n[model]\nlayers = -3\n"
            pathlib.Path(path).write_text(text, encoding="utf-8")
            with self.assertRaises(tandem.InputError) as caught:
                tandem.simulate(path)
            error = caught.exception
            self.assertEqual((error.key, error.file, error.line), ("model.layers", path, 5))
            self.assertIsInstance(error, ValueError)
            self.assertTrue(str(error).startswith(f"{path}:5: found model.layers = -3"))

    def test_a_fault_in_a_dict_or_a_set_has_its_key(self):
        for scenario, settings in ((TWO_STAGES, {"parallel.ppp": 2}), ({"parallel.ppp": 2}, None)):
            with self.assertRaises(tandem.InputError) as caught:
                tandem.simulate(scenario, settings)
            error = caught.exception
            self.assertEqual((error.key, error.file, error.line), ("parallel.ppp", None, None))
            self.assertIn("the nearest is 'parallel.pp'", str(error))

    def test_a_rule_that_is_broken_where_the_run_is_played_has_its_key(self):
        with self.assertRaises(tandem.InputError) as caught:
            tandem.simulate(TWO_STAGES, {"costs.forward_s": 0, "costs.backward_s": 0,
                                         "costs.p2p_s": 0})
        self.assertEqual(caught.exception.key, "costs.forward_s")

    def test_what_no_scenario_can_say_is_refused(self):
        bad = [
            (lambda: tandem.simulate(3), "a path or a dict"),
            (lambda: tandem.simulate({"model": {"layers": None}}), "model.layers = None"),
            (lambda: tandem.simulate({"model": {"layers": float("nan")}}), "model.layers"),
            (lambda: tandem.simulate({"model.layers": 2, "model": {"layers": 2}}), "twice"),
            (lambda: tandem.simulate({"model": "x"}), "model"),
            (lambda: tandem.simulate({}), "scenario"),
            (lambda: tandem.simulate({"model.layers": 2**64}), "an integer of 64 bits"),
            (lambda: tandem.simulate({"a\nb": 1}), "expected a text"),
            (lambda: tandem.simulate({"name": "\ud800", **TWO_STAGES}), "that is Unicode"),
            (lambda: tandem.simulate(TWO_STAGES, {"costs.forward_s=5 #": 1}), "expected a text"),
            (lambda: tandem.simulate(TWO_STAGES, engine="fast"), "expected ideal or simgrid"),
            (lambda: tandem.simulate(TWO_STAGES, jobs=0), "jobs: found 0"),
            (lambda: tandem.simulate(TWO_STAGES, jobs="2"), "jobs: found '2'"),
            (lambda: tandem.simulate(GPTS), "choose it with only=..."),
            (lambda: tandem.simulate(GPTS, only="none such"), "only: found no run"),
            (lambda: tandem.simulate("/no/such.toml"), "/no/such.toml"),
            (lambda: tandem.tune(GPTS, only="1.7B, selene", among={"parallel.tq": 1}), "parallel"),
            (lambda: tandem.tune(GPTS, only="1.7B, selene", keep=0), "expected 1 to 1000"),
            (lambda: tandem.tune(GPTS, only="1.7B, selene", seconds=0), "expected more than 0"),
            (lambda: tandem.size(GPTS), "size.tokens_T"),
            (lambda: tandem.simulate(TWO_STAGES, ["parallel.pp=2"]), "expected a dict"),
            (lambda: tandem.tune(SMALL, among=["parallel.tp=2"]), "among: found list"),
            (lambda: tandem.tune(SMALL, among={"parallel.tp": None}), "parallel.tp = None"),
            (lambda: tandem.tune(SMALL, among={"parallel.tp": []}), "among: found parallel.tp"),
            (lambda: tandem.schedule(), "expected one of them"),
            (lambda: tandem.schedule(GPTS, only="1.7B, selene", pp=4), "found pp"),
            (lambda: tandem.schedule(order="1f1b", only="1.7B"), "with an order"),
            (lambda: tandem.schedule(order="2f2b", pp=2, microbatches=2), "2f2b"),
            (lambda: tandem.schedule(order="1f1b", pp=0), "pp"),
            (lambda: tandem.schedule(order="1f1b", pp=2**31, microbatches=4), "pp: found 2147"),
            (lambda: tandem.schedule(order="interleaved", pp=2, microbatches=4, vpp=-1), "vpp: "),
            (lambda: tandem.schedule(order="1f1b", pp=2, microbatches=4, group=2), "group"),
            (lambda: tandem.schedule(order="zbv", pp=2, microbatches=4, costs=[1]), "costs: found"),
            (lambda: tandem.schedule(order="zbv", pp=2, costs="1,2,1"), "costs: found '1,2,1'"),
            (lambda: tandem.schedule(order="zbv", pp=2, costs=None), "costs: found NoneType, exp"),
            (lambda: tandem.schedule(order="zbv", pp=2, costs=["F", 1, 1]), "costs: found 'F'"),
            (lambda: tandem.schedule(order="zbv", pp=2, costs=[10**400, 1, 1]), "costs: found inf"),
            (lambda: tandem.schedule(order="zbv", pp=2, memory_limit="2"), "memory_limit: found"),
            (lambda: tandem.schedule(order="zbv", pp=2, expert_overlap="x"), "expert_overlap: "),
            (
                lambda: tandem.schedule(order=[["0F0", "0B0", "X9"]]),
                "order: row 1, cell 3: found 'X9', expected a stage",
            ),
            (lambda: tandem.schedule(order=[["0F0"]]), "order: row 1: rank 0: found 0F0 and no"),
            (lambda: tandem.schedule(order=[["# chains: 3"], ["0F0"]]), "order: row 1: found 3 ch"),
            (lambda: tandem.schedule(order=[["0F0", 3]]), "order: row 1, cell 2: found 3, exp"),
            (lambda: tandem.schedule(order=[["\ud800"]]), "order: row 1, cell 1: found '\\ud800'"),
            (lambda: tandem.schedule(order=["0F0,0B0"]), "order: row 1: found '0F0,0B0', expected"),
            (lambda: tandem.schedule(order=[]), "order: found no rows, expected a row"),
            (lambda: tandem.schedule(order={0: ["0F0"]}), "order: found dict, expected a name"),
            (lambda: tandem.schedule(order=[["0F0", "0B0"]], pp=2), "found pp with rows"),
            (lambda: tandem.schedule(order="no/such.csv"), "no/such.csv: no such file"),
            (lambda: tandem.schedule("no/such.csv", {"parallel.pp": 2}), "found an order with set"),
            (lambda: tandem.schedule(order="mine.csv", group=2), "found group with a file"),
        ]
        for call, expected in bad:
            with self.assertRaises(tandem.InputError) as caught:
                call()
            self.assertIn(expected, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
            self.assertNotIn("--", str(caught.exception))

    def test_what_holds_itself_or_is_nested_without_end_is_bad_input(self):
        ring, deep = {}, []
        ring["model"] = {"ring": ring}
        knot = [1]
        knot.append({"knot": knot})
        for _ in range(100_000):
            deep = [deep]
        tower = {}
        for _ in range(100_000):
            tower = {"model": tower}
        calls = [
            (lambda: tandem.simulate(ring), "model"),
            (lambda: tandem.simulate(tower), "model"),
            (lambda: tandem.simulate(SMALL, tower), "model"),
            (lambda: tandem.simulate({**SMALL, "model.layers": deep}), "model.layers"),
            (lambda: tandem.simulate(SMALL, {"model.layers": knot}), "knot"),
            (lambda: tandem.tune(SMALL, among={"parallel.tp": deep}), "parallel.tp"),
            (lambda: tandem.schedule(order=deep), "list, expected"),
            (lambda: tandem.tune(SMALL, among={"parallel.tp": tower}), "parallel.tp"),
            (lambda: tandem.size(PURCHASE, among={"parallel.tp": [knot]}), "parallel.tp"),
        ]
        for call, key in calls:
            with self.assertRaises(tandem.InputError) as caught:
                call()
            self.assertLess(len(str(caught.exception)), 200)
            self.assertIn(f"found {key} ", str(caught.exception))
        while deep:  # one by one: a list that is freed frees what it holds
            deep = deep[0]

    def test_what_a_listener_throws_ends_the_call(self):
        def refuse(*_):
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            tandem.simulate_all(GPTS, only="1.7B", progress=refuse)
        with self.assertRaisesRegex(LookupError, "enough"):
            tandem.tune(GPTS, only="1.7B, selene", progress=refuse)
        self.assertEqual(tandem.simulate(TWO_STAGES).gpus, 2)


class Threads(unittest.TestCase):
    def test_other_threads_run_while_a_search_does(self):
        # Minutes, if the other thread could not end it.
        code = (
            "import os, signal, threading, tandem\n"
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            f"try:\n  tandem.tune({GPTS!r}, only='1T, selene')\n"
            "except KeyboardInterrupt:\n  print('interrupted')\n"
        )
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.stdout, "interrupted\n", done.stderr)

    def test_calls_of_several_threads_wait_for_one_another(self):
        expected = tandem.simulate(GPTS, only="1.7B, selene").iteration_s
        results = []

        def call():
            results.append(tandem.simulate(GPTS, only="1.7B, selene").iteration_s)

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(results, [expected] * 4)

    def test_a_child_that_is_forked_while_another_thread_simulates_may_simulate(self):
        expected = tandem.simulate(SMALL, engine="ideal").iteration_s
        begun, end = threading.Event(), threading.Event()

        def search():  # is in one call all the time
            def told(*_):
                begun.set()
                if end.is_set():
                    raise LookupError("enough")

            with self.assertRaises(LookupError):
                tandem.sweep(
                    {**SMALL, "matrix": {"parallel.global_batch": list(range(4, 40_000, 4))}},
                    engine="ideal",
                    jobs=1,
                    progress=told,
                )

        searching = threading.Thread(target=search)
        searching.start()
        self.assertTrue(begun.wait(60))
        try:
            statuses = [self._simulates_in_a_child(expected) for _ in range(3)]
        finally:
            end.set()
            searching.join()
        self.assertEqual(statuses, [0, 0, 0])

    def test_a_child_that_a_listener_forks_may_simulate(self):
        expected = tandem.simulate(SMALL, engine="ideal").iteration_s
        statuses = []

        def told(*_):
            statuses.append(self._simulates_in_a_child(expected))

        tandem.simulate_all(SMALL, engine="ideal", progress=told)
        self.assertEqual(set(statuses), {0})

    def _simulates_in_a_child(self, expected):
        """Its status: a signal's where it waits for ever."""
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            try:
                same = tandem.simulate(SMALL, engine="ideal").iteration_s == expected
                os._exit(0 if same else 3)
            finally:
                os._exit(4)
        return os.waitpid(child, 0)[1]

    def test_a_listener_may_call(self):
        inner = []
        outer = tandem.simulate_all(
            {**TWO_STAGES, "matrix": {"parallel.global_batch": [2, 4]}},
            progress=lambda *_: inner.append(tandem.simulate(TWO_STAGES, trace=False).gpus),
        )
        self.assertEqual(len(outer), 2)
        self.assertEqual(set(inner), {2})

    def test_ctrl_c_ends_a_search_and_a_sweep(self):
        # Each takes minutes.
        purchase = str(support.SOURCE / "scenarios/procurement.toml")
        long = {
            "size": f"tandem.size({purchase!r})",
            "simulate": f"tandem.simulate({GPTS!r}, {{'variability.jitter': 0.1}}, only='1T, sel')",
            "tune": f"tandem.tune({GPTS!r}, only='1T, selene')",
            "simulate_all": f"tandem.simulate_all({GPTS!r}, {{'variability.jitter': 0.1}})",
        }
        for what, call in long.items():
            code = (
                "import tandem\nprint('begun', flush=True)\n"
                f"try:\n  {call}\nexcept KeyboardInterrupt:\n  print('interrupted')\n"
            )
            with subprocess.Popen(
                [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
            ) as child:
                self.assertEqual(child.stdout.readline(), "begun\n")
                self.assertTrue(support.starts_runs(child), what)
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.stdout.read(), "interrupted\n", what)
                self.assertEqual(child.wait(), 0)


class WithoutOthers(unittest.TestCase):
    def run_without(self, hidden, code):
        hide = (
            "import sys\nclass Hide:\n  def find_spec(self, name, *_):\n"
            f"    if name.split('.')[0] in {hidden!r}: raise ImportError('hidden')\n"
            "sys.meta_path.insert(0, Hide())\nimport tandem\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", hide + code], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_without_numpy_and_pandas_all_but_their_arrays_is_there(self):
        printed = self.run_without(
            ["numpy", "pandas", "IPython"],
            f"r = tandem.simulate({TWO_STAGES!r})\n"
            "print(len(r._repr_html_()) > 1000, len(r.timeline_svg) > 1000, r.lanes[0])\n"
            "for get in (lambda: r.trace, r.to_pandas):\n"
            "  try: get()\n"
            "  except tandem.MissingError as e: print(e)\n",
        )
        lines = printed.splitlines()
        self.assertEqual(lines[0], "True True compute")
        self.assertIn("found no numpy", lines[1])
        self.assertEqual(len(lines), 3)

    def test_without_simgrid_the_ideal_engine_runs_and_the_other_says_what_is_missing(self):
        # A folder without the plugin comes first and the package's own is a broken one.
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "tandem"
            package.mkdir()
            for path in (support.PACKAGE / "tandem").iterdir():
                if path.name != "libtandem_simgrid.so":
                    (package / path.name).symlink_to(path.resolve())
            code = (
                f"import tandem\ns = {TWO_STAGES!r}\n"
                "print(tandem.simulate(s, engine='ideal').gpus)\n"
                "try: tandem.simulate(s)\nexcept tandem.MissingError as e: print('missing')\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", code],
                env={**os.environ, "PYTHONPATH": folder, "TANDEM_PLUGINS": folder},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.stdout, "2\nmissing\n", done.stderr)


if __name__ == "__main__":
    support.have_simgrid()
    support.main()
