"""Tandem: tells how long an iteration of a large training job takes, and where the time goes.

    import tandem
    result = tandem.simulate("scenarios/megatron-sc21.toml", only="39B, selene")
    result.iteration_s, result.exposed_s.tensor

A scenario is the path of a TOML file, or a dict with the same keys (docs/scenario.md). `set`
replaces some of its settings: {"parallel.tp": 4}. Numbers have the names and units of
`tandem simulate --json`.
"""

import os
import pathlib
import tempfile

from . import _tandem
from .errors import Error, InputError, MissingError, RunError
from .progress import Progress
from .results import (
    Candidate,
    Explanation,
    Order,
    Page,
    Plan,
    Result,
    Results,
    Sizing,
    Sweep,
    Trace,
    Tuned,
    parsed,
)
from .scenario import among_words, asked, order_words, whole

__version__ = _tandem.__version__
__all__ = [
    "Candidate",
    "Error",
    "Explanation",
    "InputError",
    "MissingError",
    "Order",
    "Page",
    "Plan",
    "Result",
    "Results",
    "RunError",
    "Sizing",
    "Sweep",
    "Tuned",
    "data_dir",
    "explain",
    "orders",
    "schedule",
    "simulate",
    "simulate_all",
    "size",
    "sweep",
    "tune",
]


def simulate(
    scenario,
    set=None,
    *,
    only="",
    engine=None,
    trace=True,
    unfolded=False,
    jobs=None,
    progress=None,
):
    """Simulates one run of a scenario, or a Program (a CSV file, engine "ideal" only).

    set: settings that replace the scenario's. only: of several runs, take the one whose name
    contains this text. engine: "simgrid" (flows share links; the default) or "ideal" (no
    contention). trace: whether events and timeline are kept. unfolded: simulate every rank, not
    one for all alike. jobs: how many repetitions at once, where a run is simulated many times
    (variability.runs). progress: a function that is called with (done, total).
    """
    what = asked(scenario, set, only, engine, jobs)
    with Progress("runs", progress) as told:
        text, memory = _tandem.simulate_one(what, unfolded, trace, told.listener)
    return Result(parsed(text), None if memory is None else Trace(memory), what)


def simulate_all(
    scenario, set=None, *, only="", engine=None, unfolded=False, jobs=None, progress=None
):
    """Simulates all runs of a scenario, `jobs` at once (default: one a core), without events.

    Raises the exception of the first run that fails; sweep() keeps the other runs.
    """
    with Progress("runs", progress) as told:
        text = _tandem.simulate_many(
            asked(scenario, set, only, engine, jobs), unfolded, told.listener
        )
    return Results(Result(numbers) for numbers in parsed(text))


def sweep(
    scenario, set=None, *, output=None, only="", engine=None, list=None, jobs=None, progress=None
):
    """Simulates all runs of a scenario, thousands of them, into the CSV file `output`.

    Called again after an interruption, it goes on where it was. Without `output` the rows are only
    returned. A run that fails is a row with an error. list: a CSV with a row a run, whose columns
    are keys. progress: a function that is called with (done, total).
    """
    what = asked(scenario, set, only, engine, jobs)
    rows = "" if list is None else os.fspath(list)
    with tempfile.TemporaryDirectory() as folder, Progress("runs", progress) as told:
        path = os.path.join(folder, "sweep.csv") if output is None else os.fspath(output)
        swept = _tandem.sweep_runs(what, path, rows, told.listener)
        return Sweep._read(swept, output is not None)


def tune(
    scenario,
    set=None,
    *,
    among=None,
    framework="",
    only="",
    keep=5,
    seconds=None,
    engine=None,
    jobs=None,
    progress=None,
):
    """Finds the fastest plan for a scenario's model, batch and GPUs.

    among: only plans with one of these values, {"parallel.tp": [4, 8]}. framework: "megatron",
    "nemo", "chatlearn", "deepspeed", "fsdp" or "torchtitan": only plans that it runs. keep: how
    many plans are simulated.
    seconds: end the search after so long; `gap` estimates how far at most its best is above the
    best possible. After 2 x `seconds`, finalists not yet simulated are returned with an error.
    jobs: threads of the search, then simulations at once; by default all cores. progress: a
    function that is called with a line for each new fastest plan.
    """
    with Progress("best so far", progress) as told:
        text = _tandem.tune_scenario(
            asked(scenario, set, only, engine, jobs),
            among_words(among),
            framework or "",
            keep,
            float("inf") if seconds is None else seconds,
            told.listener,
        )
    return Tuned(parsed(text))


def size(scenario, set=None, *, among=None, only="", engine=None, jobs=None):
    """Sizes a purchase: each run of the scenario is a candidate (GPU, node, network, price).

    The scenario has tables [size] and [price] (docs/planning.md). among: as in tune().
    """
    return Sizing(
        parsed(_tandem.size_scenario(asked(scenario, set, only, engine, jobs), among_words(among)))
    )


def explain(scenario, measured, set=None, *, only=""):
    """Says why a measured run takes longer than its simulation (docs/explain.md).

    measured: a profile, a folder of them, or a log; or a list of these. The engine is "ideal".
    """
    single = isinstance(measured, (str, os.PathLike))
    files = [os.fspath(file) for file in ([measured] if single else measured)]
    if not files:
        raise InputError("measured: found no file, expected profiles or a log")
    return Explanation(
        parsed(_tandem.explain_measured(asked(scenario, set, only, None, None), files))
    )


def schedule(
    scenario=None,
    set=None,
    *,
    only="",
    order="",
    pp=1,
    microbatches=1,
    vpp=None,
    group=None,
    costs=(),
    memory_limit=0,
    expert_overlap=False,
):
    """Makes a pipeline order: a named one, one that is given, or a scenario's.

    order: one of orders(), with `pp` ranks, so many `microbatches`, and `vpp` stages a rank; or a
    file in PyTorch's form or with a table of Primus (a text with a dot is one); or rows of cells
    in PyTorch's form, a rank each, [["F0", "B0"], ["F0", "B0"]] or with stages, [["0F0", "0B0"],
    ["1F0", "1B0"]], of two chains behind ["# chains: 2"]. costs: times of a forward, an input
    gradient, a weight gradient, and perhaps a transfer, for which zero-bubble orders are made.
    group: microbatches a group (interleaved). memory_limit: how many activations of a stage a rank
    may hold.
    """
    name, file, rows = order_words(order)
    is_given = bool(file) or rows is not None
    if (scenario is None) == (not name and not is_given):
        raise InputError("found a scenario and an order, or neither; expected one of them")
    if scenario is None and (set or only):
        raise InputError("found set or only with an order, expected a scenario: they choose in one")
    sizes = {"pp": pp != 1, "microbatches": microbatches != 1, "vpp": vpp, "group": group}
    sizes |= {"memory_limit": memory_limit, "expert_overlap": expert_overlap}
    given = [key for key, value in sizes.items() if value]
    if given and not name:
        what = "a scenario" if scenario is not None else "a file" if file else "rows"
        raise InputError(f"found {given[0]} with {what}, expected order with a name")
    return Order(
        _tandem.order_drawn(
            _tandem.AskedOrder(
                asked("" if scenario is None else scenario, set, only, None, None),
                name,
                file,
                rows,
                whole("pp", pp),
                whole("microbatches", microbatches),
                0 if vpp is None else whole("vpp", vpp),
                0 if group is None else whole("group", group),
                [float(time) for time in costs],
                memory_limit,
                expert_overlap,
            )
        )
    )


def orders():
    """Lists the names of all pipeline orders."""
    return _tandem.order_names()


def data_dir():
    """Gives the folder of Tandem's own scenarios/ and topology/presets/."""
    return pathlib.Path(_tandem.data_dir())
