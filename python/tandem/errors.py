"""What goes wrong, as exceptions that say where."""


class Error(Exception):
    """Why something could not be done: what was found, and what was expected.

    `key` is the scenario's key that it is about ("parallel.tp"), `file` and `line` are where it
    stands; each is None where there is none.
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


def made(kind, message, key, file, line):
    """The exception of an error of the library (base/result.h)."""
    return _KINDS[kind](message, key, file, line)
