"""Turns scenarios and settings, given as paths or dicts, into the library's parameters."""

import json
import math
import numbers
import os
import re
from collections.abc import Iterable, Mapping

from . import _tandem
from .errors import InputError


def _is_unicode(text):
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _python_value(value):
    """Turns numpy's arrays and numbers and pandas' columns into Python's lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else value


def _found(value):
    """Writes what was found in place of a text: a number or text itself, else its type."""
    is_short = isinstance(value, (str, numbers.Number))
    return repr(value) if is_short else type(value).__name__


def whole(name, value):
    """Returns the value as an int; raises InputError unless it is a whole number from 1 on."""
    if not isinstance(value, numbers.Integral) or not 1 <= value < 2**31:
        raise InputError(f"{name}: found {value!r}, expected a whole number of at least 1")
    return int(value)


def within(name, value, least, most):
    """Returns the value if it is from `least` to `most`, and whole if `least` is an int."""
    kind = numbers.Integral if isinstance(least, int) else numbers.Real
    if not isinstance(value, kind) or not least <= value <= most:
        raise InputError(f"{name}: found {value!r}, expected {least} to {most}")
    return type(least)(value)


def number(name, value):
    """Returns the value as a float; raises InputError unless it is a finite number."""
    try:
        if isinstance(value, numbers.Real) and math.isfinite(value):
            return float(value)
    except OverflowError:  # an int beyond all floats
        value = math.inf
    raise InputError(f"{name}: found {_found(value)}, expected a number")


def number_list(name, values):
    """Returns the values as a list of floats; raises InputError unless they are numbers."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name}: found {_found(values)}, expected a list of numbers")
    return [number(name, value) for value in values]


_MOST_LEVELS = 16  # of nested dicts and lists: far more than any setting has


def _check_level(key, level):
    """Raises InputError if a value is nested too deep, as one that contains itself."""
    if level > _MOST_LEVELS:
        raise InputError(
            f"found {key} with more than {_MOST_LEVELS} dicts and lists, one in the other, "
            f"expected at most {_MOST_LEVELS}: does it hold itself?",
            key,
        )


def _value(key, value, level=0):
    """Writes a value as TOML does, in one line."""
    _check_level(key, level)
    value = _python_value(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= value < 2**63:
            raise InputError(f"found {key} = {value}, expected an integer of 64 bits", key)
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        text = json.dumps(os.fspath(value), ensure_ascii=False)
        if not _is_unicode(text):
            raise InputError(f"found {key} = {value!r}, expected a text that is Unicode", key)
        return text.replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = [f"{json.dumps(str(k))} = {_value(k, v, level + 1)}" for k, v in value.items()]
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(key, each, level + 1) for each in value) + "]"
    raise InputError(
        f"found {key} = {value!r}, expected a number, a text, True, False, a list or a dict", key
    )


def _flat(settings, prefix="", level=0):
    """Yields (dotted key, value): ("a.b", 4) for {"a": {"b": 4}} and for {"a.b": 4}."""
    _check_level(prefix.partition(".")[0], level)
    for key, value in settings.items():
        if not isinstance(key, str) or not key or not key.isprintable() or "=" in key:
            raise InputError(f"found the key {key!r}, expected a text such as 'parallel.tp'")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.", level + 1)
        else:
            yield prefix + key, value


def lines(settings):
    """Returns for each setting its key, the key as TOML quotes it, and its value as TOML."""
    if not isinstance(settings, Mapping):
        raise InputError(
            f"found settings of type {type(settings).__name__}, expected a dict, {{key: value}}"
        )
    seen = set()
    found = []
    for key, value in _flat(settings):
        if key in seen:
            raise InputError(f"found {key} twice, expected it once", key)
        seen.add(key)
        dotted = ".".join(json.dumps(part, ensure_ascii=False) for part in key.split("."))
        found.append((key, dotted, _value(key, value)))
    return found


def call_parameters(scenario, settings, only, engine, jobs):
    """Makes the library's CallParameters from the parameters that all calls have."""
    text = None
    if isinstance(scenario, Mapping):
        path = "scenario"
        text = "".join(f"{dotted} = {value}\n" for _, dotted, value in lines(scenario))
    elif isinstance(scenario, (str, os.PathLike)):
        path = os.fspath(scenario)
    else:
        raise InputError(
            f"found a scenario of type {type(scenario).__name__}, expected a path or a dict"
        )
    jobs = 0 if jobs is None else whole("jobs", jobs)
    sets = [f"{key}={value}" for key, _, value in lines(settings or {})]
    return _tandem.CallParameters(path, text, sets, only or "", engine or "", jobs)


def _cell(row, place, cell, rank):
    """Returns the text of a cell of an order; None is an empty cell.

    "F0" without a stage means the rank's own stage: "1F0" on rank 1.
    """
    if cell is None:
        return ""
    if not isinstance(cell, str) or not _is_unicode(cell):
        raise InputError(
            f"order: row {row}, cell {place}: found {_found(cell)}, expected a text such as '0F0'"
        )
    word = cell.strip()
    return f"{rank}{word}" if re.fullmatch(r"[FBIW]\d+", word) else word


def order_words(order):
    """Returns (name, file, rows) of an order for the library; at most one of them is given.

    A text with a dot is a file, as in a scenario.
    """
    if isinstance(order, os.PathLike):
        return "", os.fspath(order), None
    if order is None or isinstance(order, str):
        text = order or ""
        return ("", text, None) if "." in text else (text, "", None)
    order = _python_value(order)
    if not isinstance(order, (list, tuple)):
        raise InputError(
            f"order: found {type(order).__name__}, expected a name, a file or a list of rows, "
            "[['0F0', '0B0'], ...]"
        )
    rows = []
    rank = 0
    for number, row in enumerate(order, 1):
        row = _python_value(row)
        if not isinstance(row, (list, tuple)):
            raise InputError(
                f"order: row {number}: found {_found(row)}, expected a list of cells, "
                "['0F0', '0B0']"
            )
        rows.append([_cell(number, place, cell, rank) for place, cell in enumerate(row, 1)])
        is_comment = bool(rows[-1]) and rows[-1][0].startswith("#")  # "# chains: 2": no rank's
        if not is_comment:
            rank += 1
    return "", "", rows


def among_words(among):
    """Writes the choices of a search as the command line does: {"a.b": [4, 8]} as ["a.b=4,8"]."""
    words = []
    if among and not isinstance(among, Mapping):
        raise InputError(
            f"among: found {type(among).__name__}, expected a dict, {{key: [value, ...]}}"
        )
    for key, values in (among or {}).items():
        values = _python_value(values)
        if isinstance(values, (str, bool, numbers.Number)):
            values = [values]
        if isinstance(values, Mapping) or not isinstance(values, Iterable):
            found = "a dict" if isinstance(values, Mapping) else repr(values)
            raise InputError(f"among: found {key} = {found}, expected values or a value", key)
        values = list(values)
        if any(isinstance(value, (Mapping, list, tuple)) for value in values):
            raise InputError(
                f"among: found {key} with a list or a dict as a value, expected texts, numbers, "
                "True or False",
                key,
            )
        texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
        words.append(f"{key}={','.join(texts)}")
    return words
