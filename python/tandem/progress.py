"""Progress in a notebook; in a terminal the library draws its own bars on stderr."""

import time
from html import escape

PAUSE_S = 0.5  # what is over sooner shows nothing


def _display():
    """IPython's display function inside a notebook's kernel, else None."""
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        return None
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return lambda html, handle: (
        handle.update(HTML(html)) if handle else display(HTML(html), display_id=True)
    )


class Progress:
    """A bar of `what` while a call lasts, or the words of a search under way.

    told: a function that is called instead.
    """

    def __init__(self, what, told=None):
        self._what = what
        self._told = told
        self._display = _display() if told is None else None
        self._handle = None
        self._shown = None
        self._begin = time.monotonic()

    @property
    def listener(self):
        """What the library is to call, or None where nobody looks."""
        return self if self._told or self._display else None

    def __call__(self, *news):
        if self._told:
            self._told(*news)
            return
        if news == self._shown or time.monotonic() - self._begin < PAUSE_S:
            return
        self._shown = news
        if len(news) == 2:
            done, total = news
            html = (
                f'<progress value="{done}" max="{max(total, 1)}"></progress> '
                f"{done} of {total} {escape(self._what)}"
            )
        else:
            html = f"{escape(self._what)}: {escape(str(news[0]))}"
        self._handle = self._display(html, self._handle) or self._handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._handle:
            self._display("", self._handle)
