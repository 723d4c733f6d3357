# The compiled module, as the package uses it.
from collections.abc import Callable, Sequence
from typing import Any

__version__: str

class CallParameters:
    def __init__(
        self, path: str, text: str | None, sets: Sequence[str], only: str, engine: str, jobs: int
    ) -> None: ...

class OrderRequest:
    def __init__(
        self,
        call: CallParameters,
        name: str,
        file: str,
        rows: Sequence[Sequence[str]] | None,
        pp: int,
        microbatches: int,
        vpp: int,
        group: int,
        costs: Sequence[float],
        memory_limit: float,
        expert_overlap: bool,
    ) -> None: ...

class SharedTrace: ...

def compare_run(
    call: CallParameters, measured: str, passes: str, worst: int | None
) -> str: ...
def data_dir() -> str: ...
def explain_measured(call: CallParameters, measured: Sequence[str]) -> str: ...
def holds_texts(column: str) -> bool: ...
def order_drawn(request: OrderRequest) -> dict[str, Any]: ...
def order_names() -> list[str]: ...
def page_of_run(call: CallParameters, on_done: Callable[[int, int], object] | None) -> str: ...
def play_real(
    call: CallParameters,
    gemm: bool,
    gemm_scale: float,
    iterations: int,
    warmup: int,
    timeout_s: float,
) -> tuple[str, SharedTrace]: ...
def record_fields() -> list[tuple[str, str]]: ...
def simulate_many(
    call: CallParameters, unfolded: bool, on_done: Callable[[int, int], object] | None
) -> str: ...
def simulate_one(
    call: CallParameters, unfolded: bool, trace: bool, on_done: Callable[[int, int], object] | None
) -> tuple[str, SharedTrace | None]: ...
def size_scenario(call: CallParameters, among: Sequence[str]) -> str: ...
def sweep_runs(
    call: CallParameters, output: str, list: str, on_done: Callable[[int, int], object] | None
) -> dict[str, Any]: ...
def tune_scenario(
    call: CallParameters,
    among: Sequence[str],
    framework: str,
    keep: int,
    seconds: float,
    on_better: Callable[[str], object] | None,
) -> str: ...
def validate_runs(call: CallParameters, iterations: int, timeout_s: float, folder: str) -> str: ...
