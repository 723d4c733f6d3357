"""Results of calls that measure: real runs, and comparisons of simulations with measurements."""

from .results import Result, _Document, _module, _percent, _Shown


class RealRun(Result):
    """A real run: a simulation's numbers for the median iteration, and statistics of all."""

    def _notes(self):
        spread = self.spread.iteration_s
        late = " Unreliable: the host woke up late." if self.host.unreliable else ""
        return [
            *super()._notes(),
            f"{self.backend}: {self.real}.",
            f"{self.iterations} iterations, p5 {spread.p5:.4g} s, p95 {spread.p95:.4g} s.{late}",
        ]


def _seconds(value):
    return "" if value is None else f"{value:.4g}"


def _error(simulated, measured):
    return f"{100 * (simulated / measured - 1):+.1f}" if simulated and measured else ""


class _Compared(_Shown, _Document):
    """Shows a row for each of _values(): (name, simulated, measured, is_share)."""

    def _rows(self):
        rows = []
        for name, simulated, measured, is_share in self._values():
            text, unit = (_percent, "%") if is_share else (_seconds, "s")
            error = "" if is_share else _error(simulated, measured)
            rows.append([f"{name} {unit}", text(simulated), text(measured), error])
        return ["", "simulated", "measured", "error %"], rows

    def __repr__(self):
        _, simulated, measured, _ = self._values()[0]
        return f"<tandem.{type(self).__name__}: {simulated:.4g} s against {measured:.4g} s>"


class Comparison(_Compared):
    """A simulated trace against a measured one of the same Program, op by op."""

    def _values(self):
        ours, theirs = self.simulated, self.measured
        exposed = [k for k, differs in self.exposed_difference_s.items() if differs is not None]
        return [
            ("iteration", ours.iteration_s, theirs.iteration_s, False),
            ("compute", ours.compute_s, theirs.compute_s, False),
            ("bubble", ours.bubble_fraction, theirs.bubble_fraction, True),
            *((f"exposed {k}", ours.exposed_s[k], theirs.exposed_s[k], False) for k in exposed),
        ]


class ProfileComparison(_Compared):
    """A simulation against profiles of the real run: one step, as the mean of the ranks."""

    def _lines(self):
        return self.notes

    def _values(self):
        return [(row.name, row.simulated, row.measured, row.unit != "s") for row in self.rows]


class Validation(_Shown):
    """The runs of a suite, simulated and measured: `rows`, of which `failed` differ too much."""

    def __init__(self, rows):
        self.rows = rows

    @property
    def failed(self):
        """The number of runs that differ by more than [validate] allows."""
        return sum(bool(row.faults) for row in self.rows)

    def __len__(self):
        return len(self.rows)

    def to_pandas(self):
        """A row a run, a column a number."""
        return _module("pandas").json_normalize(self.rows)

    def _rows(self):
        columns = ["run", "simulated s", "measured s", "error %", "bubble %", "measured %", "ok"]
        return columns, [
            [
                ", ".join(row.points),
                _seconds(row.simulated_s),
                _seconds(row.measured_s),
                _error(row.simulated_s, row.measured_s),
                _percent(row.simulated_bubble),
                _percent(row.measured_bubble),
                "NO" if row.faults else "yes" if row.is_bounded else "-",
            ]
            for row in self.rows
        ]

    def _lines(self):
        return [f"{', '.join(row.points)}: {text}" for row in self.rows for text in row.faults]

    def __repr__(self):
        return f"<tandem.Validation: {len(self)} runs, {self.failed} failed>"
