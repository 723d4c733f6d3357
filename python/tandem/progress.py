"""Shows progress in a notebook. In a terminal the library itself draws bars on stderr."""

import time
from html import escape

PAUSE_S = 0.5  # a call that ends sooner shows nothing


def _display():
    """Returns a function that shows HTML in a notebook, or None outside a notebook's kernel."""
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
    """Shows a bar of `what` while a call lasts, or the latest line of a search.

    listener: the user's function, which is called instead of showing anything: with (done, total)
    for a bar, with a line for a search.
    """

    def __init__(self, what, listener=None):
        self._what = what
        self._listener = listener
        self._display = _display() if listener is None else None
        self._handle = None
        self._shown = None
        self._begin = time.monotonic()

    @property
    def listener(self):
        """This object, for the library to call; None if there is nobody to tell."""
        return self if self._listener or self._display else None

    def __call__(self, *news):
        if self._listener:
            self._listener(*news)
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
