"""Indexes of the book: statement -> hypotheses -> function -> figure -> test, and all figures."""

from ._tables import Html, html_table, text_table
from .experiments import experiments
from .statements import statements

STATEMENT_HEADER = ("statement", "status", "source", "hypotheses", "function", "figures", "tests")


class Index:
    """A table that prints as text and shows as HTML with links into the book."""

    def __init__(self, header, rows, html_rows):
        self._header, self.rows, self._html_rows = header, rows, html_rows

    def __repr__(self):
        return text_table(self._header, self.rows)

    def _repr_html_(self):
        return html_table(self._header, self._html_rows)


def _figures_of(key):
    return [item for item in experiments().values() if item.statement == key]


def statement_rows():
    """Header and rows of the statement index, as plain text."""
    rows = [(key, item.status, item.source, item.assumes, " ".join(item.functions),
             " ".join(found.name for found in _figures_of(key)), " ".join(item.tests))
            for key, item in statements.items()]
    return STATEMENT_HEADER, rows


def statement_index():
    """The index of statements, for a page of the book."""
    header, rows = statement_rows()
    linked = [(Html(f"<strong>{item.title}</strong><br><code>{key}</code>"), item.status,
               item.source, item.assumes, _lines(map(_function_link, item.functions)),
               _lines(map(_figure_link, _figures_of(key))),
               _lines(f"<code>{test}</code>" for test in item.tests))
              for key, item in statements.items()]
    return Index(header, rows, linked)


def figure_index():
    """The index of figures, for a page of the book."""
    header = ("figure", "statement", "title", "code")
    rows = [(name, item.statement, item.title, item.source_file)
            for name, item in experiments().items()]
    linked = [(Html(_figure_link(item)), item.statement, item.title,
               Html(f"<code>{item.source_file}</code>")) for item in experiments().values()]
    return Index(header, rows, linked)


def _figure_link(item):
    return f'<a href="{item.chapter}.html#{item.name}">{item.name}</a>'


def _function_link(dotted):
    return f'<a href="api.html#{dotted}"><code>{dotted.removeprefix("attn_clusters.")}</code></a>'


def _lines(parts):
    return Html("<br>".join(parts))
