"""Results of calls that search or sweep: plans, purchases and the rows of a CSV."""

import csv
import re

from . import _tandem
from .errors import RunError
from .results import _COLUMNS, Result, _cell, _Document, _formatted, _module, _row, _Shown, _used


class Plan:
    """A plan of a search: its settings, as simulate() takes them, and its result."""

    def __init__(self, found):
        self.plan = {key: _cell(value) for key, value in found["plan"].items()}
        self.stage_level_s = found["stage_level_s"]
        self.error = found.get("error")
        self._result = Result(found["simulate"]) if "simulate" in found else None

    @property
    def result(self):
        """The plan's simulation; raises RunError where it failed."""
        if self._result is None:
            raise RunError(self.error)
        return self._result

    def __repr__(self):
        words = " ".join(f"{key}={value}" for key, value in self.plan.items())
        return f"<tandem.Plan {words}>"


class Tuned(_Shown, _Document):
    """Plans that a search found, `best` (fastest first), and the scenario's `own` plan."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.best = [Plan(found) for found in numbers["best"]]
        # None: the scenario's own plan is refused, which own_refused says.
        self.own = Plan(numbers["own"]) if numbers["own"] else None
        self.own_refused = numbers.get("own_refused")
        # The best of the plans that keep the training guides' rules.
        self.rules = Plan(numbers["rules"]) if "rules" in numbers else None

    def _rows(self):
        plans = [(str(i + 1), plan) for i, plan in enumerate(self.best)]
        plans += [(label, p) for label, p in (("rules", self.rules), ("own", self.own)) if p]
        keys = list(dict.fromkeys(key for _, plan in plans for key in plan.plan))
        rows = []  # without run, cluster and GPUs, the first three columns, alike for all plans
        for label, plan in plans:
            cells = _row(plan.result)[3:] if plan.error is None else [""] * (len(_COLUMNS) - 3)
            rows.append([label, *(str(plan.plan.get(key, "")) for key in keys), *cells])
        return _used(["plan", *keys, *_COLUMNS[3:]], rows)

    def __repr__(self):
        best = f"the best {self.best[0].plan}" if self.best else "no best one"
        return f"<tandem.Tuned: {self.enumerated} plans, {best}>"

    def _html_notes(self):
        whole = "all" if self.complete else "not all"
        return [f"{self.enumerated} plans, {whole} of them compared."]


class Candidate(_Document):
    """A purchase: GPUs of a kind with their tuned plan. Every number is an attribute."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.result = Result(numbers["simulate"]) if "simulate" in numbers else None

    def __repr__(self):
        return f"<tandem.Candidate {self.job}: {self.gpus} GPUs, {self.candidate}>"


class Sizing(_Shown):
    """Purchases to choose from: `candidates`, and for each job the one to take."""

    def __init__(self, numbers):
        self._numbers = numbers
        self.candidates = [Candidate(one) for one in numbers["sized"]]

    @property
    def recommended(self):
        """The cheapest candidate that is not ruled out, by job; a job without one is missing."""
        return {one.job: one for one in self.candidates if one.recommended}

    to_dict = _Document.to_dict

    def to_pandas(self):
        """A row a candidate, a column a number."""
        return _module("pandas").json_normalize(self._numbers["sized"])

    def _rows(self):
        rows = []
        for one in self.candidates:
            numbers = [""] * 4
            if one.result is not None:
                costs = one.economics
                days = [_formatted(costs.days_p50, ".1f"), _formatted(costs.days_late, ".1f")]
                cost = costs.cost if costs.cost is None else costs.cost / 1e6
                energy = f"{costs.energy_MWh:.0f}" if costs.energy_MWh else ""
                numbers = [*days, _formatted(cost, ".3g"), energy]
            choice = "take this" if one.recommended else one.out or ""  # out: why it is not
            rows.append([one.job, one.candidate, str(one.gpus), *numbers, choice])
        columns = ["job", "candidate", "GPUs", "days", "days p95", "cost M", "MWh", "choice"]
        return _used(columns, rows)

    def __repr__(self):
        return f"<tandem.Sizing: {len(self.candidates)} candidates>"


def _plain(cell):
    """Drops the ' that a CSV has before texts such as "=1+1", which a spreadsheet would compute."""
    return cell[1:] if re.match(r"'[' \t]*[=+@-]", cell) else cell


class Sweep(_Shown):
    """The rows of a sweep, a dict each. An earlier call had written `kept` of them."""

    def __init__(self, path, failed, kept, first_failure, rows):
        self.path = path
        self.failed = failed
        self.kept = kept
        self.first_failure = first_failure
        self.rows = rows

    @classmethod
    def _read(cls, swept, keep_path):
        with open(swept["path"], newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            texts = {column for column in reader.fieldnames if _tandem.holds_texts(column)}
            rows = [
                {
                    column: (_plain(cell) or None) if column in texts else _cell(_plain(cell))
                    for column, cell in row.items()
                    if column != "checksum"
                }
                for row in reader
            ]
        path = swept["path"] if keep_path else None
        return cls(path, swept["failed"], swept["kept"], swept["first_failure"], rows)

    def __len__(self):
        return len(self.rows)

    def to_pandas(self):
        """A row a run, its columns those of the CSV."""
        return _module("pandas").DataFrame(self.rows)

    def _rows(self):
        shown = ["name", "iteration_s", "tokens_per_s_per_gpu", "mfu", "bubble_fraction", "error"]
        columns = [c for c in shown if self.rows and c in self.rows[0]]

        def text(value):
            return "" if value is None else f"{value:.4g}" if type(value) is float else str(value)

        return _used(columns, [[text(row[c]) for c in columns] for row in self.rows])

    def __repr__(self):
        return f"<tandem.Sweep: {len(self)} rows, {self.failed} failed>"

    def _html_notes(self):
        return [f"{self.failed} failed, the first is {self.first_failure}"] if self.failed else []
