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
from .measured import Comparison, ProfileComparison, RealRun, Validation
from .progress import Progress
from .results import Explanation, Order, Page, Result, Results, Trace, parsed
from .scenario import (
    among_words,
    call_parameters,
    number,
    number_list,
    order_words,
    whole,
    within,
)
from .searched import Candidate, Plan, Sizing, Sweep, Tuned

__version__ = _tandem.__version__
__all__ = [
    "Candidate",
    "Comparison",
    "Error",
    "Explanation",
    "InputError",
    "MissingError",
    "Order",
    "Page",
    "Plan",
    "ProfileComparison",
    "RealRun",
    "Result",
    "Results",
    "RunError",
    "Sizing",
    "Sweep",
    "Tuned",
    "Validation",
    "compare",
    "data_dir",
    "explain",
    "orders",
    "run",
    "schedule",
    "simulate",
    "simulate_all",
    "size",
    "sweep",
    "tune",
    "validate",
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
    call = call_parameters(scenario, set, only, engine, jobs)
    with Progress("runs", progress) as shown:
        text, memory = _tandem.simulate_one(call, unfolded, trace, shown.listener)
    return Result(parsed(text), None if memory is None else Trace(memory), call)


def simulate_all(
    scenario, set=None, *, only="", engine=None, unfolded=False, jobs=None, progress=None
):
    """Simulates all runs of a scenario, `jobs` at once (default: one a core), without events.

    Raises the exception of the first run that fails; sweep() keeps the other runs.
    """
    with Progress("runs", progress) as shown:
        text = _tandem.simulate_many(
            call_parameters(scenario, set, only, engine, jobs), unfolded, shown.listener
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
    call = call_parameters(scenario, set, only, engine, jobs)
    rows = "" if list is None else os.fspath(list)
    with tempfile.TemporaryDirectory() as folder, Progress("runs", progress) as shown:
        path = os.path.join(folder, "sweep.csv") if output is None else os.fspath(output)
        swept = _tandem.sweep_runs(call, path, rows, shown.listener)
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
    with Progress("best so far", progress) as shown:
        text = _tandem.tune_scenario(
            call_parameters(scenario, set, only, engine, jobs),
            among_words(among),
            framework or "",
            keep,
            float("inf") if seconds is None else seconds,
            shown.listener,
        )
    return Tuned(parsed(text))


def size(scenario, set=None, *, among=None, only="", engine=None, jobs=None):
    """Sizes a purchase: each run of the scenario is a candidate (GPU, node, network, price).

    The scenario has tables [size] and [price] (docs/planning.md). among: as in tune().
    """
    call = call_parameters(scenario, set, only, engine, jobs)
    return Sizing(parsed(_tandem.size_scenario(call, among_words(among))))


def explain(scenario, measured, set=None, *, only=""):
    """Says why a measured run takes longer than its simulation (docs/explain.md).

    measured: a profile, a folder of them, or a log; or a list of these. The engine is "ideal".
    """
    single = isinstance(measured, (str, os.PathLike))
    files = [os.fspath(file) for file in ([measured] if single else measured)]
    if not files:
        raise InputError("measured: found no file, expected profiles or a log")
    return Explanation(
        parsed(_tandem.explain_measured(call_parameters(scenario, set, only, None, None), files))
    )


def compare(simulated, measured, set=None, *, only="", engine=None, only_passes="", worst=None):
    """Holds a simulation against what was measured: two traces (CSV), or a profile.

    simulated: a trace; beside a profile or a folder of them also a scenario, a Program or profiles.
    set, only, engine: of a scenario. only_passes: of the simulation these passes alone, beside a
    profile ("6F3,1B1"). worst: so many ops of two traces that differ most; default 10.
    """
    call = call_parameters(simulated, set, only, engine, None)
    most = None if worst is None else within("worst", worst, 0, 2**31 - 1)
    numbers = parsed(_tandem.compare_run(call, os.fspath(measured), only_passes, most))
    return ProfileComparison(numbers) if "rows" in numbers else Comparison(numbers)


def validate(suite, set=None, *, only="", iterations=5, timeout_s=60):
    """Simulates and measures the runs of a suite (docs/validation.md), on this machine's cores.

    A run that differs by more than [validate] allows counts as `failed`. Suites over MPI or on GPUs
    are for the command, `tandem validate`. iterations: measured ones. timeout_s: an op must end
    within so long.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = _tandem.validate_runs(
            call_parameters(suite, set, only, None, None),
            within("iterations", iterations, 1, 10**6),
            within("timeout_s", timeout_s, 1e-6, 1e9),
            folder,
        )
    return Validation(parsed(text))


def run(
    scenario,
    set=None,
    *,
    only="",
    backend="host",
    compute="timed",
    gemm_scale=1,
    iterations=5,
    warmup=1,
    timeout_s=60,
):
    """Plays one run of a scenario, or a Program (a CSV file), for real (docs/runtime.md).

    All ranks are in one process, on this machine's cores: backend "host". compute: "timed", an op
    takes its priced time, or "gemm", it multiplies its matrices, whose sides are times gemm_scale.
    The result, with events, is the median of `iterations`, after `warmup` others. timeout_s: an op
    must end within so long.
    """
    if backend != "host":
        raise InputError(
            f"backend: found {backend!r}, expected 'host': ranks with processes of their own are "
            "started by the command tandem run --backend"
        )
    if compute not in ("timed", "gemm"):
        raise InputError(f"compute: found {compute!r}, expected 'timed' or 'gemm'")
    if gemm_scale != 1 and compute != "gemm":
        raise InputError("found gemm_scale, expected compute='gemm' with it")
    text, memory = _tandem.play_real(
        call_parameters(scenario, set, only, None, None),
        compute == "gemm",
        within("gemm_scale", gemm_scale, 1e-6, 1e3),
        within("iterations", iterations, 1, 10**6),
        within("warmup", warmup, 0, 10**6),
        within("timeout_s", timeout_s, 1e-6, 1e9),
    )
    return RealRun(parsed(text), Trace(memory))


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
    if expert_overlap not in (True, False):
        raise InputError(f"expert_overlap: found {expert_overlap!r}, expected True or False")
    has_scenario = scenario is not None
    has_order = bool(name or file) or rows is not None
    if has_order == has_scenario:
        raise InputError("found a scenario and an order, or neither; expected one of them")
    if (set or only) and not has_scenario:
        raise InputError("found set or only with an order, expected a scenario: they choose in one")
    sizes = {"pp": pp != 1, "microbatches": microbatches != 1, "vpp": vpp, "group": group}
    sizes |= {"memory_limit": memory_limit, "expert_overlap": expert_overlap}
    given = [key for key, value in sizes.items() if value]
    if given and not name:
        what = "a scenario" if has_scenario else "a file" if file else "rows"
        raise InputError(f"found {given[0]} with {what}, expected order with a name")
    return Order(
        _tandem.order_drawn(
            _tandem.OrderRequest(
                call_parameters(scenario if has_scenario else "", set, only, None, None),
                name,
                file,
                rows,
                whole("pp", pp),
                whole("microbatches", microbatches),
                0 if vpp is None else whole("vpp", vpp),
                0 if group is None else whole("group", group),
                number_list("costs", costs),
                number("memory_limit", memory_limit),
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
