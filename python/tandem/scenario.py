"""Scenarios as Python has them: paths, or dicts of what a TOML file says."""

import json
import numbers
import os
from collections.abc import Mapping

from . import _tandem
from .errors import InputError


def _value(key, value):
    """A value as TOML writes it, in one line."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":  # numpy's own
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= value < 2**63:
            raise InputError(f"found {key} = {value}, expected an integer of 64 bits", key)
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        text = json.dumps(os.fspath(value), ensure_ascii=False)
        return text.replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        items = [f"{json.dumps(str(k))} = {_value(k, v)}" for k, v in value.items()]
        return "{ " + ", ".join(items) + " }"
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        return "[" + ", ".join(_value(key, each) for each in value) + "]"
    raise InputError(
        f"found {key} = {value!r}, expected a number, a text, True, False, a list or a dict", key
    )


def _flat(settings, prefix=""):
    """The settings as pairs of a dotted key and a value; dicts may be nested or not."""
    for key, value in settings.items():
        if not isinstance(key, str) or not key or not key.isprintable():
            raise InputError(f"found the key {key!r}, expected a text such as 'parallel.tp'")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def lines(settings):
    """Of each of the settings: its key, the same dotted as TOML has it, and its value."""
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


def asked(scenario, settings, only, engine, jobs):
    """What all calls take, as the library has it."""
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
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs: found {jobs}, expected at least 1")
    sets = [f"{key}={value}" for key, _, value in lines(settings or {})]
    return _tandem.AskedOf(path, text, sets, only or "", engine or "", jobs or 0)


def among_words(among):
    """Choices of a search, {"parallel.tp": [4, 8]}, as the command line has them."""
    words = []
    if among and not isinstance(among, Mapping):
        raise InputError(
            f"among: found {type(among).__name__}, expected a dict, {{key: [value, ...]}}"
        )
    for key, values in (among or {}).items():
        if isinstance(values, (str, bool, numbers.Number)):
            values = [values]
        texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
        words.append(f"{key}={','.join(texts)}")
    return words
