"""Measured speed, as stored by ``make bench``: a table of ratios and the cost of many tokens."""

import json
from functools import cache
from importlib import resources
from io import BytesIO

import numpy as np

from . import plots
from ._tables import Html, html_table, text_table


@cache
def stored():
    """The stored measurements, a dictionary."""
    found = resources.files(__package__).joinpath("data", "performance.json")
    return json.loads(found.read_text(encoding="utf-8"))


class _Rows:
    """Rows under a header, as text and as a page shows them."""

    def __repr__(self):
        return text_table(self.header, self.rows)

    def _repr_html_(self):
        return html_table(self.header, self.rows)


class Table(_Rows):
    """Ratios beside the aims that this project set itself."""

    header = ("what", "measured", "aim")

    def __init__(self, results=None):
        self.rows = [*_kernel_rows(results or stored()), *_other_rows(results or stored())]


class Machine:
    """The machine on which the stored measurements were taken."""

    def __init__(self, results=None):
        self.facts = (results or stored())["machine"]

    def __repr__(self):
        return "\n".join(f"{name}: {value}" for name, value in self.facts.items())

    def _repr_html_(self):
        return html_table(("machine", ""), self.facts.items())


class Profile(_Rows):
    """Where the time of one average goes, in units of the hardware's bound."""

    def __init__(self, results=None):
        found = (results or stored())["profile"]
        names = [name for name in found[0] if name not in ("n", "d")]
        self.header = ("", *names)
        self.rows = [(f"n = {row['n']}, d = {row['d']}", *(f"{row[name]:.2f}" for name in names))
                     for row in found]


def _kernel_rows(results):
    for found in results["single_thread"]:
        n, d = found["n"], found["d"]
        aim = "at most 2" if d <= 3 else "at most 1.5"
        name = f"n = {n}, d = {d}: "
        yield name + "time / hardware bound", f"{found['of_bound']:.2f}", aim
        if "full_matrices" in found:
            aim = "at least 7" if (n, d) == (4096, 2) else ""
            yield name + "full matrices / this", f"{found['full_matrices']:.1f}", aim
        if "torch" in found:
            yield name + "torch / this", f"{found['torch']:.2f}", "at least 1"
    for n, d in dict.fromkeys((found["n"], found["d"]) for found in results["temperatures"]):
        worst = max(found["of_beta_one"] for found in results["temperatures"]
                    if (found["n"], found["d"]) == (n, d) and found["beta"] != 1)
        yield f"n = {n}, d = {d}: large beta or late / beta = 1, at worst", f"{worst:.2f}", "at most 1.4"
    for found in results["threads"]:
        yield (f"n = {found['n']}, d = {found['d']}: one thread / two", f"{found['speedup']:.2f}",
               "at least 1.5")


def _other_rows(results):
    small = results["small_systems"]
    yield "40 tokens: nested loops / simulate", f"{small['of_loops']:.0f}", "at least 5000"
    yield ("40 tokens: nested loops with one matrix exponential / simulate",
           f"{small['of_kinder_loops']:.0f}", "")
    for found in results["batches"]:
        name = f"200 runs of {found['n']} tokens: one by one / together, "
        yield name + "one evaluation", f"{found['evaluation']:.1f}", "at least 3"
        yield (f"{name}adaptive runs ({found['share']} share steps: {found['evaluations_shared']:.0f} "
               f"evaluations, alone {found['evaluations_alone']:.0f})", f"{found['adaptive']:.1f}",
               "at least 3")
    for found in results["many_tokens"]:
        aim = {"circle, beta = 20": "at most 0.5 s", "line, beta = 100": "at most 1 s"}.get(found["path"], "")
        yield (f"{found['path']}, n = {found['n'][-1]}",
               f"{found['seconds'][-1]:.2f} s, slope {found['slope']:.2f}", aim)


class Picture:
    """Cost against the number of tokens, with the fitted slopes in its caption."""

    def __init__(self, results=None):
        self.paths = (results or stored())["many_tokens"]
        slopes = "; ".join(f"{path['path']}: {path['slope']:.2f}" for path in self.paths)
        self.caption = f"Seconds for one evaluation against the number of tokens. Slopes: {slopes}."
        self.alt = ("Time against number of tokens on logarithmic axes: the direct sum rises with "
                    "the square of the number, the paths for circle and line in proportion to it.")

    @property
    def figure(self):
        """The drawing, a `matplotlib.figure.Figure`."""
        figure, axis = plots.canvas(width=7.0, height=4.2)
        for path, (colour, style), marker in zip(self.paths, plots.LINES, plots.MARKERS,
                                                 strict=False):
            axis.loglog(path["n"], path["seconds"], color=colour, linestyle=style, marker=marker,
                        label=path["path"])
        axis.set_xlabel("number of tokens n")
        axis.set_ylabel("seconds for one evaluation")
        axis.legend(frameon=False)
        return figure

    def __repr__(self):
        return self.caption

    def _ipython_display_(self):
        from IPython.display import display

        buffer = BytesIO()
        self.figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        display({"image/png": buffer.getvalue(), "text/plain": "<figure performance>"}, raw=True,
                metadata={"image/png": {"alt": self.alt}})
        caption = Html(f'<div class="companion-figure"><p class="companion-caption">'
                       f"{self.caption}</p></div>")
        display({"text/html": caption, "text/plain": self.caption}, raw=True)


def fitted_slope(n, seconds):
    """Slope of log(seconds) against log(n) over the larger sizes, the first two left out."""
    return float(np.polyfit(np.log(n[2:]), np.log(seconds[2:]), 1)[0])
