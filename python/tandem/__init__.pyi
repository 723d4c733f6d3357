import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy
import pandas

__version__: str

_Scenario = str | os.PathLike[str] | Mapping[str, Any]
_Settings = Mapping[str, Any] | None
_Order = str | os.PathLike[str] | Sequence[Sequence[str | None]]
_Told = Callable[[int, int], object] | None

class Error(Exception):
    key: str | None
    file: str | None
    line: int | None

class InputError(Error, ValueError): ...
class RunError(Error, RuntimeError): ...
class MissingError(Error, RuntimeError): ...

class Numbers(dict[str, Any]):
    def __getattr__(self, name: str) -> Any: ...

class ByGroup(Numbers):
    tensor: float
    pipeline: float
    data: float
    context: float
    expert: float

class ShareByGroup(Numbers):
    tensor: float | None
    pipeline: float | None
    data: float | None
    context: float | None
    expert: float | None

class Memory(Numbers):
    weights: float
    gradients: float
    optimizer: float
    activations: float
    communication: float
    workspace: float
    total: float
    by_pipeline_rank: list[float]
    reserve: float
    capacity: float
    outside: float
    fragmentation: float

class FoundOrder(Numbers):
    name: str | None
    placement: str
    ideal_iteration_s: float
    named: str | None
    named_vpp: int | None
    named_iteration_s: float | None
    gain: float | None

class Result:
    name: str
    axes: list[str]
    points: list[str]
    cluster: str
    engine: str
    costs: str
    gpus: int
    plan: Numbers | None
    layout: str | None
    found_order: FoundOrder | None
    iteration_s: float
    iteration_low_s: float | None
    iteration_high_s: float | None
    calibrated: bool | None
    cost_model: str | None
    best_published_mfu: Numbers | None
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    model_tflops_per_gpu: float | None
    hardware_tflops_per_gpu: float | None
    mfu: float | None
    hfu: float | None
    flops_convention: str | None
    memory_bytes: Memory | None
    fits: bool | None
    verdict: str | None
    spare_bytes: float | None
    peak: Numbers | None
    memory_parts: list[Numbers] | None
    memory_fixes: list[Numbers] | None
    bubble_ratio: float
    bubble_fraction: float
    bubble_window_fraction: float
    bubble_window_fraction_max: float
    compute_s: float
    exposed_s: ByGroup
    comm_s: ByGroup
    overlap_fraction: ShareByGroup
    exposed_between_nodes_s: float
    sent_bytes: ByGroup
    equal_expert_loads: bool | None
    routing_cost: float | None
    routing_waiting: float | None
    baseline: str | None
    saved_s: float | None
    saved_of_iteration: float | None
    saved_kind: str | None
    saved_communication_s: float | None
    saved_of_communication: float | None
    published_tflops_per_gpu: float | None
    least_internode_Gbitps: float | None
    looked_for_bandwidth: bool
    lower_bound_s: float | None
    lower_bound_kind: str | None
    lower_bound_rank: int | None
    repeats: Numbers | None
    sensitivity: list[Numbers] | None
    warnings: list[str]
    ranks_simulated: int
    ops: int
    engine_wall_s: float
    @property
    def trace(self) -> numpy.ndarray: ...
    @property
    def lanes(self) -> tuple[str, ...]: ...
    @property
    def kinds(self) -> tuple[str, ...]: ...
    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def timeline_svg(self) -> str: ...
    def show(self, height: int = 900) -> Page: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Explanation:
    simulated_s: float
    measured_s: float
    causes: list[Numbers]
    smaller_causes_s: float
    interactions_s: float
    not_explained_s: float
    explained: bool
    steps: int
    ranks_measured: list[Numbers]
    ranks: int
    notes: list[str]
    def to_dict(self) -> dict[str, Any]: ...

class RealRun(Result):
    backend: str
    real: str
    iterations: int
    spread: Numbers
    payloads_checked: int
    shares_queues: bool
    host: Numbers
    op_times: list[Numbers]

class Comparison:
    iteration_error: float
    bubble_difference: float
    overlap_difference: ShareByGroup
    exposed_difference_s: ShareByGroup
    ops: Numbers
    kinds: Numbers
    simulated: Numbers
    measured: Numbers
    ranks: list[Numbers]
    worst: list[Numbers]
    def to_dict(self) -> dict[str, Any]: ...

class ProfileComparison:
    rows: list[Numbers]
    communication: list[Numbers]
    passes: list[Numbers]
    simulated: Numbers
    measured: Numbers
    another_job: str | None
    notes: list[str]
    def to_dict(self) -> dict[str, Any]: ...

class Validation:
    rows: list[Numbers]
    @property
    def failed(self) -> int: ...
    def __len__(self) -> int: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Page:
    html: str
    def save(self, path: str | os.PathLike[str]) -> None: ...

class Results(Sequence[Result]):
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Result]: ...
    @overload
    def __getitem__(self, at: int | str) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> Results: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Plan:
    plan: dict[str, Any]
    stage_level_s: float | None
    error: str | None
    @property
    def result(self) -> Result: ...

class Tuned:
    scenario: str
    cuts: Numbers
    enumerated: int
    pruned: Numbers
    scheduled: int
    orders_played: int
    unplayable: int
    not_searched: int
    complete: bool
    bound_s: float | None
    gap: float | None
    search_wall_s: float
    cleared: list[str]
    framework: str | None
    assumes: str | None
    best: list[Plan]
    rules: Plan | None
    own: Plan | None
    own_refused: str | None
    refined: list[Numbers]
    verdicts: list[Numbers]
    def to_dict(self) -> dict[str, Any]: ...

class Candidate:
    job: str
    candidate: str
    gpus: int
    out: str | None
    recommended: bool
    nodes: int
    batch: int
    on_engine: bool
    plain_numerics: float | None
    frontier: bool
    calibrated: bool | None
    plan: Numbers
    economics: Numbers
    oversubscribed: Numbers
    nics: Numbers
    simulate: Numbers
    result: Result | None
    def to_dict(self) -> dict[str, Any]: ...

class Sizing:
    candidates: list[Candidate]
    @property
    def recommended(self) -> dict[str, Candidate]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Sweep:
    path: str | None
    failed: int
    kept: int
    first_failure: str | None
    rows: list[dict[str, Any]]
    def __len__(self) -> int: ...
    def to_pandas(self) -> pandas.DataFrame: ...

class Order:
    name: str
    pp: int
    stages: int
    microbatches: int
    grid: str
    text: str
    text_with_communication: str
    @property
    def ranks(self) -> list[list[str]]: ...

def simulate(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    only: str = "",
    engine: str | None = None,
    trace: bool = True,
    unfolded: bool = False,
    jobs: int | None = None,
    progress: _Told = None,
) -> Result: ...
def simulate_all(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    only: str = "",
    engine: str | None = None,
    unfolded: bool = False,
    jobs: int | None = None,
    progress: _Told = None,
) -> Results: ...
def sweep(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    output: str | os.PathLike[str] | None = None,
    only: str = "",
    engine: str | None = None,
    list: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: _Told = None,
) -> Sweep: ...
def tune(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    among: Mapping[str, Any] | None = None,
    framework: str = "",
    only: str = "",
    keep: int = 5,
    seconds: float | None = None,
    engine: str | None = None,
    jobs: int | None = None,
    progress: Callable[[str], object] | None = None,
) -> Tuned: ...
def size(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    among: Mapping[str, Any] | None = None,
    only: str = "",
    engine: str | None = None,
    jobs: int | None = None,
) -> Sizing: ...
def explain(
    scenario: _Scenario,
    measured: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    set: _Settings = None,
    *,
    only: str = "",
) -> Explanation: ...
def compare(
    simulated: _Scenario,
    measured: str | os.PathLike[str],
    set: _Settings = None,
    *,
    only: str = "",
    engine: str | None = None,
    only_passes: str = "",
    worst: int | None = None,
) -> Comparison | ProfileComparison: ...
def validate(
    suite: _Scenario,
    set: _Settings = None,
    *,
    only: str = "",
    iterations: int = 5,
    timeout_s: float = 60,
) -> Validation: ...
def run(
    scenario: _Scenario,
    set: _Settings = None,
    *,
    only: str = "",
    backend: str = "host",
    compute: str = "timed",
    gemm_scale: float = 1,
    iterations: int = 5,
    warmup: int = 1,
    timeout_s: float = 60,
) -> RealRun: ...
def schedule(
    scenario: _Scenario | None = None,
    set: _Settings = None,
    *,
    only: str = "",
    order: _Order = "",
    pp: int = 1,
    microbatches: int = 1,
    vpp: int | None = None,
    group: int | None = None,
    costs: Sequence[float] = (),
    memory_limit: float = 0,
    expert_overlap: bool = False,
) -> Order: ...
def orders() -> list[str]: ...
def data_dir() -> pathlib.Path: ...
