"""Small tables, as plain text for terminals and as HTML for notebooks."""

from html import escape

SMALLEST_SHOWN = 1e-12


def number(value, digits=4):
    """A number for readers: `digits` significant ones, rounding noise shown as such."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if 0 < abs(value) < SMALLEST_SHOWN:
        return f"below {SMALLEST_SHOWN:.0e}"
    return f"{value:.{digits}g}"


def text_table(header, rows):
    """Columns padded with spaces, a rule below the header."""
    lines = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    padded = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
              for line in lines]
    return "\n".join([padded[0], "  ".join("-" * width for width in widths), *padded[1:]])


def html_table(header, rows, caption=None):
    """The same as an HTML table; cells that are `Html` are taken as they are."""
    def line(cells, tag, scope=""):
        inner = "".join(f"<{tag}{scope}>{_html(cell)}</{tag}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    title = f"<caption>{_html(caption)}</caption>" if caption else ""
    body = "".join(line(row, "td") for row in rows)
    head = line(header, "th", ' scope="col"')
    return (f'<div class="companion-table"><table>{title}<thead>{head}</thead>'
            f"<tbody>{body}</tbody></table></div>")


class Html(str):
    """Text that is HTML already."""


def _html(cell):
    return cell if isinstance(cell, Html) else escape(str(cell))
