"""What the tests of the Python module share: where things are, the program beside it, skipping."""

import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(os.environ["TANDEM_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["TANDEM_BUILD"])
PROGRAM = os.environ["TANDEM_PROGRAM"]
PACKAGE = BUILD / "python"
GPTS = str(SOURCE / "scenarios/megatron-sc21.toml")
SKIPPED = 77  # ctest's word for it

TWO_STAGES = {
    "parallel": {"pp": 2, "global_batch": 4},
    "costs": {"source": "uniform", "forward_s": 0.001, "backward_s": 0.002, "p2p_s": 0.0001},
}
SMALL = {
    "model": {"layers": 8, "hidden": 1024, "heads": 16, "seq": 512, "vocab": 32000},
    "parallel": {"tp": 2, "pp": 2, "dp": 2, "micro_batch": 1, "global_batch": 16},
    "cluster": {"preset": "selene", "gpus": 8},
}
PURCHASE = {
    **SMALL,
    "size": {"tokens_T": 0.001, "days": 30, "gpus": [8, 16]},
    "price": {"node_hour": 20},
}


def toml_of(settings):
    lines = []
    for table, keys in settings.items():
        lines.append(f"[{table}]")
        lines += [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in keys.items()]
    return "\n".join(lines) + "\n"


def starts_runs(process):
    """Waits until the process has started another one, for five minutes at most; whether it has."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + 300
    while not children.read_text(encoding="ascii") and time.monotonic() < until:
        time.sleep(0.01)
    return time.monotonic() < until


def command(*words):
    """What the program prints."""
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command_json(*words):
    return json.loads(command(*words, "--json"))


def have(*modules):
    """Ends the test program as skipped where one of the modules is missing."""
    for module in modules:
        try:
            __import__(module)
        except ImportError as error:
            skip(f"no {module} ({error})")


def have_simgrid():
    """As have(), of the default engine."""
    import tandem

    try:
        tandem.simulate(TWO_STAGES)
    except tandem.MissingError as error:
        skip(str(error))


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def timeless(numbers):
    """Without what differs from one run to the next: the time on the wall."""
    if isinstance(numbers, dict):
        return {k: timeless(v) for k, v in numbers.items() if not k.endswith("wall_s")}
    if isinstance(numbers, list):
        return [timeless(each) for each in numbers]
    return numbers


def main():
    unittest.main(verbosity=2)
