"""Exceptions, which say what is wrong and where."""


class Error(Exception):
    """Something could not be done: the message says what was found and what was expected.

    `key` is the scenario's key at fault ("parallel.tp"), `file` and `line` are its place; each is
    None where there is none.
    """

    def __init__(self, message, key=None, file=None, line=None):
        super().__init__(message)
        self.key = key
        self.file = file
        self.line = line


class InputError(Error, ValueError):
    """Bad input: a key, a value, a file, or an argument."""


class RunError(Error, RuntimeError):
    """A run that could not be played to its end."""


class MissingError(Error, RuntimeError):
    """Something that is not on this machine: SimGrid, numpy, pandas."""


_KINDS = {1: RunError, 2: InputError, 3: MissingError}


def exception_of(kind, message, key, file, line):
    """Makes the exception for an Error of the library (base/result.h)."""
    return _KINDS[kind](message, key, file, line)
