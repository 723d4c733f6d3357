# The compiled module, as the package uses it.
from collections.abc import Callable, Sequence
from typing import Any

__version__: str

class AskedOf:
    def __init__(
        self, path: str, text: str | None, sets: Sequence[str], only: str, engine: str, jobs: int
    ) -> None: ...

class AskedOrder:
    def __init__(
        self,
        of: AskedOf,
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

def compare_run(asked: AskedOf, measured: str, passes: str, worst: int) -> str: ...
def data_dir() -> str: ...
def explain_measured(asked: AskedOf, measured: Sequence[str]) -> str: ...
def order_drawn(asked: AskedOrder) -> dict[str, Any]: ...
def order_names() -> list[str]: ...
def page_of_run(asked: AskedOf, on_done: Callable[[int, int], object] | None) -> str: ...
def play_real(
    asked: AskedOf,
    gemm: bool,
    gemm_scale: float,
    iterations: int,
    warmup: int,
    timeout_s: float,
) -> tuple[str, SharedTrace]: ...
def record_fields() -> list[tuple[str, str]]: ...
def simulate_many(
    asked: AskedOf, unfolded: bool, on_done: Callable[[int, int], object] | None
) -> str: ...
def simulate_one(
    asked: AskedOf, unfolded: bool, trace: bool, on_done: Callable[[int, int], object] | None
) -> tuple[str, SharedTrace | None]: ...
def size_scenario(asked: AskedOf, among: Sequence[str]) -> str: ...
def sweep_runs(
    asked: AskedOf, output: str, list: str, on_done: Callable[[int, int], object] | None
) -> dict[str, Any]: ...
def tune_scenario(
    asked: AskedOf,
    among: Sequence[str],
    framework: str,
    keep: int,
    seconds: float,
    on_better: Callable[[str], object] | None,
) -> str: ...
def validate_runs(asked: AskedOf, iterations: int, timeout_s: float, folder: str) -> str: ...
