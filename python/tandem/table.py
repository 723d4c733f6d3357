"""Lays out rows of cells as a table, in text or in HTML."""

from html import escape


def _is_number(cell):
    """Says whether the cell is a number, as "12.3*", "+4", "-5" and "0.9-1.1" are."""
    return cell.rstrip("*").lstrip("+").replace(".", "", 2).replace("-", "", 2).isdigit()


def as_text(columns, rows):
    """Lays out a line a row, names on the left, numbers on the right."""
    widths = [max(len(r[i]) for r in [columns, *rows]) for i in range(len(columns))]
    right = [any(_is_number(r[i]) for r in rows) for i in range(len(columns))]
    return "\n".join(
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)).rstrip()
        for row in [columns, *rows]
    )


def as_html(columns, rows, notes=()):
    """Makes a table with a line for each note below it."""
    right = [any(_is_number(r[i]) for r in rows) for i in range(len(columns))]

    def cells(row, tag):
        sides = ["right" if r else "left" for r in right]
        return "".join(
            f'<{tag} style="padding:2px 8px;text-align:{side}">{escape(c)}</{tag}>'
            for c, side in zip(row, sides)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    head = f"<thead><tr>{cells(columns, 'th')}</tr></thead>"
    return f"<table>{head}<tbody>{body}</tbody></table>{below}"
