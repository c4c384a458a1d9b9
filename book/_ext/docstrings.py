"""In docstrings |x| is a norm, as in the papers, and not a substitution."""

import re

BAR = re.compile(r"(``.*?``|`.*?`)|\|")


def escape_bars(app, what, name, obj, options, lines):
    lines[:] = [BAR.sub(lambda match: match[1] or r"\|", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
