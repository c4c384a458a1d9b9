"""The site serves its own MathJax and asks nothing of any other host."""

from importlib.metadata import files
from pathlib import Path
from shutil import copyfile

# The renderer, and what its context menu can switch on: speech, and output as HTML instead of SVG.
MATHJAX = ("tex-svg-full.js", "a11y/", "input/mml.js", "input/mml/entities.js", "output/chtml",
           "sre/mathmaps/base.json", "sre/mathmaps/en.json")


def copy_mathjax(app):
    if app.builder.format != "html":
        return
    for file in files("sphinx-mathjax-offline"):
        _, found, name = file.as_posix().partition("/static/mathjax/")
        if found and name.startswith(MATHJAX):
            target = Path(app.outdir, "_static", "mathjax", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            copyfile(file.locate(), target)


def drop_thebe(app, pagename, templatename, context, doctree):
    """The thebe extension cannot be left out of a book, and names its off-site source on every page."""
    context["script_files"] = [s for s in context.get("script_files", []) if "thebe" not in str(s)]


def setup(app):
    app.connect("builder-inited", copy_mathjax)
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
