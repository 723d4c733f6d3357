"""What most calls return: objects with the numbers of `--json` as attributes.

Most also convert to a pandas DataFrame and show themselves as a table in a terminal or notebook.
"""

import json
import re
from collections.abc import Sequence

from . import _tandem, table
from .errors import InputError, MissingError, RunError


class Numbers(dict):
    """A dict whose items are attributes as well: exposed_s.tensor is exposed_s["tensor"]."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no {name!r}") from None

    def __dir__(self):
        return [*super().__dir__(), *(key for key in self if key.isidentifier())]

    def __reduce__(self):
        return (type(self), (dict(self),))


def parsed(text):
    """Reads JSON of the library, with objects as Numbers."""
    return json.loads(text, object_hook=Numbers)


def _module(name):
    try:
        return __import__(name)
    except ImportError as error:
        raise MissingError(f"found no {name} ({error}), expected it to be installed") from None


def _formatted(number, form):
    """Formats a number. None stands for infinity, which JSON lacks."""
    return "inf" if number is None else format(number, form)


class Trace:
    """A run's events, in the memory that the simulator wrote them to.

    The bytes are the length of a JSON object (64 bits), the object, blanks up to a multiple of 64
    bytes, then one record for each event.
    """

    def __init__(self, memory):
        view = memoryview(memory)
        length = int.from_bytes(view[:8], "little")
        self._head = json.loads(bytes(view[8 : 8 + length]))
        self._memory = memory
        self._offset = (8 + length + 63) // 64 * 64

    def __getattr__(self, name):
        if name in ("lanes", "kinds", "groups", "svg", "no_svg"):
            return self._head[name]
        raise AttributeError(name)

    def array(self):
        numpy = _module("numpy")
        fields = numpy.dtype(_tandem.record_fields())
        return numpy.frombuffer(self._memory, fields, offset=self._offset)


class _Shown:
    """Shows a table with lines below it. A notebook also shows notes below the lines."""

    def _lines(self):
        return []

    def _html_notes(self):
        return []

    def __str__(self):
        return "\n".join([table.as_text(*self._rows()), *self._lines()])

    def _repr_html_(self):
        return table.as_html(*self._rows(), [*self._lines(), *self._html_notes()])


class _Document:
    """Wraps an object of the library's JSON. Its members are attributes."""

    def __init__(self, numbers):
        self._numbers = numbers

    def to_dict(self):
        """All numbers, as the command's `--json` prints them."""
        return dict(self._numbers)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._numbers, name)

    def __dir__(self):
        return [*super().__dir__(), *self._numbers]


class Result(_Shown, _Document):
    """A run. Every number of `tandem simulate --json` is an attribute of that name."""

    def __init__(self, numbers, trace=None, call=None):
        super().__init__(numbers)
        self._trace = trace
        self._call = call

    def __reduce__(self):
        """Pickles the numbers alone: events and scenario are dropped."""
        return (type(self), (self._numbers,))

    def _notes(self):
        return [f"Warning: {text}" for text in self.warnings]

    def _events(self):
        if self._trace is None:
            raise InputError(
                "found a run without its events, expected one of tandem.simulate(..., trace=True)"
            )
        return self._trace

    @property
    def trace(self):
        """The events as a numpy structured array, a view of the simulator's own memory."""
        return self._events().array()

    @property
    def lanes(self):
        """The lanes' names, by the numbers of trace["lane"]."""
        return tuple(self._events().lanes)

    @property
    def kinds(self):
        """The kinds of operations, by the numbers of trace["kind"]."""
        return tuple(self._events().kinds)

    @property
    def groups(self):
        """The kinds of communication, by the numbers of trace["group"] (-1: compute)."""
        return tuple(self._events().groups)

    @property
    def timeline_svg(self):
        """The timeline as SVG, as `tandem simulate --plot` draws it."""
        trace = self._events()
        if trace.svg is None:
            raise RunError(trace.no_svg)
        return trace.svg

    def show(self, height=900):
        """Makes the live page: in a notebook a frame of `height` pixels.

        The scenario is read again. The page always simulates with the engine ideal. If this result
        came from another engine, a line above the page says so.
        """
        if self._call is None:
            raise InputError("found a run without its scenario, expected one of tandem.simulate()")
        return Page(_tandem.page_of_run(self._call, None), self, height)

    def to_pandas(self):
        """The events as a pandas DataFrame, names in place of numbers."""
        pandas = _module("pandas")
        frame = pandas.DataFrame({name: self.trace[name] for name in self.trace.dtype.names})
        for column, names in (("lane", self.lanes), ("kind", self.kinds), ("group", self.groups)):
            frame[column] = pandas.Categorical.from_codes(frame[column].to_numpy(), list(names))
        return frame

    def _rows(self):
        return _table_of([self])

    def _lines(self):
        return _lines_below([self])

    def __repr__(self):
        kind = type(self).__name__
        return f"<tandem.{kind} {self.name!r}: {self.iteration_s:.4g} s on {self.gpus} GPUs>"

    def _repr_html_(self):
        html = super()._repr_html_()
        if self._trace is None:
            return html
        if self._trace.svg is None:
            return html + f"<p>No timeline: {table.escape(self._trace.no_svg)}</p>"
        return html + f'<div style="overflow-x:auto">{self._trace.svg}</div>'


class Page:
    """A live page (HTML): in a notebook a frame; `save` writes it to a file."""

    def __init__(self, html, result, height):
        self.html = html
        self._result = result
        self._height = height

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def __repr__(self):
        return f"<tandem.Page of {self._result.name!r}: {len(self.html) / 1e6:.1f} MB, save(path)>"

    def _repr_html_(self):
        engine = self._result.engine
        note = ""
        if engine != "ideal":
            note = (
                f"<p>The page simulates by the engine ideal. The result that it was made from, "
                f"{self._result.iteration_s:.4g} s, is of {table.escape(engine)}.</p>"
            )
        return (
            f'{note}<iframe srcdoc="{table.escape(self.html)}" title="Tandem" '
            f'style="width:100%;height:{self._height}px;border:0"></iframe>'
        )


class Results(_Shown, Sequence):
    """Several runs, in the scenario's order."""

    def __init__(self, runs):
        self._runs = list(runs)

    def __len__(self):
        return len(self._runs)

    def __getitem__(self, key):
        """Gives a run by its number or its name, or several by a slice."""
        if isinstance(key, slice):
            return Results(self._runs[key])
        if not isinstance(key, str):
            return self._runs[key]
        for run in self._runs:
            if run.name == key:
                return run
        raise KeyError(key)

    def to_pandas(self):
        """A row a run, a column a number: exposed_s.tensor, memory_bytes.total, ..."""
        pandas = _module("pandas")
        return pandas.json_normalize([run.to_dict() for run in self._runs])

    def _rows(self):
        return _table_of(self._runs)

    def _lines(self):
        return _lines_below(self._runs)

    def __repr__(self):
        return f"<tandem.Results: {len(self)} runs>"


def _cell(text):
    """Converts a cell: a JSON number becomes a number, `true` and `false` become booleans.

    An empty cell becomes None. Any other text stays as it is.
    """
    if re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", text):  # as in JSON
        return json.loads(text)
    return {"": None, "true": True, "false": False}.get(text, text)


def _percent(share):
    return "" if share is None else f"{100 * share:.1f}"


def _row(run):
    """Gives the cells of a run's row in every table."""
    low, high = run.iteration_low_s, run.iteration_high_s
    guess = "*" if run.calibrated is False else ""  # explained by _lines_below
    memory = run.memory_bytes
    return [
        run.name,
        run.cluster,
        str(run.gpus),
        f"{run.iteration_s:.4g}{guess}",
        "" if low is None else f"{low:.3g}-{high:.3g}",
        "" if run.tokens_per_s_per_gpu is None else f"{run.tokens_per_s_per_gpu:.0f}",
        _percent(run.mfu),
        _percent(run.bubble_fraction),
        _percent(sum(run.exposed_s.values()) / run.iteration_s),
        "" if memory is None else f"{memory.total / 2**30:.1f}",
        "" if run.fits is None else f"{run.verdict} {run.spare_bytes / 2**30:+.1f}",
    ]


_COLUMNS = [
    "run",
    "cluster",
    "GPUs",
    "iteration s",
    "90 % s",
    "tokens/s/GPU",
    "MFU %",
    "bubble %",
    "communication %",
    "GiB",
    "fits",
]


def _used(columns, rows):
    """Leaves out the columns that no row fills."""
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _table_of(runs):
    return _used(_COLUMNS, [_row(run) for run in runs])


def _lines_below(runs):
    lines = []
    if any(run.calibrated is False for run in runs):
        lines.append("* A guess: no measured run stands behind this cost model.")
    for run in runs:
        lines += run._notes()
    return lines


class Explanation(_Shown, _Document):
    """Why a measured run is slower than simulated: `causes`, the largest first, and the rest."""

    def _rows(self):
        rows = [("simulated iteration", self.simulated_s)]
        rows += [(cause.what, cause.alone_s) for cause in self.causes]
        rows += [("smaller causes, together", self.smaller_causes_s)]
        rows += [("interactions", self.interactions_s), ("not explained", self.not_explained_s)]
        rows += [("measured iteration", self.measured_s)]
        return ["", "s"], [[what, f"{seconds:.4f}"] for what, seconds in rows]

    def __repr__(self):
        return f"<tandem.Explanation: {self.simulated_s:.4g} s to {self.measured_s:.4g} s>"

    def _html_notes(self):
        causes = [f"{cause.what}: {cause.evidence}. {cause.advice}." for cause in self.causes]
        return [*causes, *self.notes]


class Order:
    """A pipeline order: the actions of each rank, in their order."""

    def __init__(self, drawn):
        self.name = drawn["name"]
        self.pp = drawn["pp"]
        self.stages = drawn["stages"]
        self.microbatches = drawn["microbatches"]
        self.grid = drawn["grid"]
        self.text = drawn["actions"]
        self.text_with_communication = drawn["communication"]

    @property
    def ranks(self):
        """The actions of each rank, as PyTorch writes them: [["0F0", "0F1", ...], ...]."""
        rows = [row for row in self.text.splitlines() if not row.startswith("#")]
        return [[cell for cell in row.split(",") if cell] for row in rows]

    def __str__(self):
        return self.grid

    def __repr__(self):
        return f"<tandem.Order {self.name}: {self.pp} ranks, {self.stages} stages>"

    def _repr_html_(self):
        return f"<pre>{table.escape(self.grid)}</pre>"
