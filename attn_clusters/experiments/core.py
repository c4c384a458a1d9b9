"""The registry: every figure of the book is one seeded, captioned, checked experiment.

An experiment is a function that takes its parameters by keyword and returns the arrays that are
drawn and the numbers that sum them up.
"""

import importlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from .._tables import html_table, text_table
from ..animation import animated_png
from ..statements import statements
from .numbers import Bounded, reference_text
from .provenance import commit, data_hash, peak_memory, plain, versions

CHAPTERS = ("tokens", "polytope", "boolean", "hyperplanes", "mixed", "collapse", "stability",
            "beyond", "highdim", "trained", "your_weights", "sphere", "laplace", "zero_temperature",
            "concentration", "metastability", "terminal", "cbo")
REFERENCE = Path(__file__).parent / "reference"
NUMBER_HEADER = ("quantity", "this run", "reference", "agree to")


@dataclass(frozen=True)
class Experiment:
    """One figure: how to compute it, how to draw it, what to say about it."""

    name: str
    statement: str
    title: str
    caption: str
    alt: str
    compute: Callable
    draw: Callable
    parameters: dict
    animate: Callable | None = None

    @property
    def chapter(self):
        """Name of the module and of the page it belongs to."""
        return self.compute.__module__.rsplit(".", 1)[-1]

    @property
    def source_file(self):
        """Path of the code that makes it, from the top of the repository."""
        return self.compute.__module__.replace(".", "/") + ".py"

    @property
    def reference_file(self):
        """Where its reference numbers are stored."""
        return REFERENCE / f"{self.name}.json"

    def references(self):
        """The stored reference numbers; empty if there are none yet."""
        if not self.reference_file.exists():
            return {}
        return json.loads(self.reference_file.read_text(encoding="utf-8"))


_registry: dict[str, Experiment] = {}


def experiment(name, *, statement, title, caption, alt, draw, animate=None, **parameters):
    """Register a function as the figure `name` of a statement.

    The function takes `parameters` by keyword and returns (arrays, numbers): the keyword arguments
    of `draw`, and a dictionary of `Measured`. `caption` and `alt` may use the names of parameters
    and of numbers in braces. A figure that moves has an `animate` too, which takes the same arrays
    and yields a matplotlib Figure for each frame; what `draw` makes of them is its still form.
    """
    if statement not in statements or not name.startswith(statement):
        raise ValueError(f"name: expected a statement's key first, got {name!r} for {statement!r}")
    if name in _registry:
        raise ValueError(f"name: {name!r} is registered already")

    def register(compute):
        _registry[name] = Experiment(name, statement, title, " ".join(caption.split()),
                                     " ".join(alt.split()), compute, draw, parameters, animate)
        return compute

    return register


def experiments():
    """All experiments by name, in the order of the book."""
    for chapter in CHAPTERS:
        importlib.import_module(f"{__package__}.{chapter}")
    return dict(_registry)


def figures():
    """Names of every figure of the book, in its order."""
    return list(experiments())


def find(name):
    """The experiment of that name.

    Raises
    ------
    ValueError
        With the nearest names, if there is none.
    """
    known = experiments()
    if name not in known:
        near = get_close_matches(str(name), known, n=3, cutoff=0.4) or list(known)[:3]
        raise ValueError(f"name: no figure is called {name!r}; the nearest are {', '.join(near)}")
    return known[name]


def figure(name, **changes):
    """Compute a figure of the book.

    Parameters
    ----------
    name : str
        One of `figures()`.
    **changes
        Parameters to run it with instead of the book's; reference numbers then do not apply.

    Returns
    -------
    FigureResult

    Raises
    ------
    ValueError
        If there is no such figure or parameter.
    """
    found = find(name)
    unknown = set(changes) - set(found.parameters)
    if unknown:
        raise ValueError(f"{unknown.pop()}: figure {name!r} has the parameters "
                         f"{', '.join(found.parameters)}")
    parameters = found.parameters | changes
    start = time.perf_counter()
    arrays, numbers = found.compute(**parameters)
    return FigureResult(found, parameters, arrays, numbers, time.perf_counter() - start)


@dataclass(frozen=True, eq=False)
class FigureResult:
    """A computed figure: arrays, numbers, drawing, provenance.

    Attributes
    ----------
    experiment : Experiment
    parameters : dict
        What it was run with, seed included.
    arrays : dict of array
        The data that are drawn.
    numbers : dict of Measured
        What sums them up.
    seconds : float
        Time the computation took.
    """

    experiment: Experiment
    parameters: dict
    arrays: dict
    numbers: dict
    seconds: float

    @property
    def name(self):
        """Name of the figure."""
        return self.experiment.name

    @property
    def caption(self):
        """Caption with this run's parameters and numbers."""
        return self._fill(self.experiment.caption)

    @property
    def alt(self):
        """Description for readers who do not see the picture."""
        return self._fill(self.experiment.alt)

    @cached_property
    def figure(self):
        """The drawing, a `matplotlib.figure.Figure`."""
        return self.experiment.draw(**self.arrays)

    @property
    def comparable(self):
        """Whether it was run with the book's parameters, so that references apply."""
        return self.parameters == self.experiment.parameters

    def _fill(self, template):
        values = dict(self.parameters) | {key: item.text for key, item in self.numbers.items()}
        return template.format(**values)

    def differences(self):
        """Sentences about every number that disagrees with its reference; empty if all agree."""
        stored = self.experiment.references()
        found = [f"{self.name}: {key} is not among the references" for key in self.numbers
                 if key not in stored]
        found += [f"{self.name}: reference {key} is no longer computed" for key in stored
                  if key not in self.numbers]
        found += [f"{self.name}: {key} is {_repr(item)}, the reference is {stored[key]!r} "
                  f"({item.asked})" for key, item in self.numbers.items()
                  if key in stored and not item.agrees(stored[key])]
        return found

    def say(self, template):
        """A sentence with this run's numbers, for prose: names in braces, as `{area_start}`."""
        return Sentence(self._fill(template))

    def store_references(self):
        """Write this run's numbers as the new references."""
        stored = {key: item.stored for key, item in self.numbers.items()}
        text = json.dumps(stored, indent=2) + "\n"
        self.experiment.reference_file.write_text(text, encoding="utf-8")

    def png(self, dpi=130):
        """The drawing as PNG bytes, with 255 colours: a quarter of the size, off by at most 4 %."""
        full, small = BytesIO(), BytesIO()
        self.figure.savefig(full, format="png", dpi=dpi)
        colours = Image.open(full).convert("RGB").quantize(255, method=Image.Quantize.MAXCOVERAGE,
                                                           dither=Image.Dither.NONE)
        colours.save(small, format="png", optimize=True)
        return small.getvalue()

    def animation(self):
        """The moving form of the figure as bytes of an animated PNG; None for one that is still."""
        animate = self.experiment.animate
        return None if animate is None else animated_png(animate(**self.arrays))

    def save(self, out):
        """Write NAME.png, NAME.svg, NAME.npz, NAME.json into the folder `out`; return their paths.

        A figure that moves leaves NAME.apng besides.
        """
        out = Path(out)
        out.mkdir(parents=True, exist_ok=True)
        paths = [out / f"{self.name}.{kind}" for kind in ("png", "svg", "npz", "json")]
        paths[0].write_bytes(self.png())
        self.figure.savefig(paths[1], metadata={"Date": None, "Title": self.experiment.title,
                                                "Description": self.alt})
        np.savez_compressed(paths[2], **self.arrays)
        paths[3].write_text(json.dumps(self.provenance(), indent=2) + "\n", encoding="utf-8")
        if self.experiment.animate:
            paths.append(out / f"{self.name}.apng")
            paths[-1].write_bytes(self.animation())
        return paths

    def provenance(self):
        """Everything needed to trust or repeat the figure, as a dictionary for JSON."""
        return {
            "name": self.name,
            "statement": self.experiment.statement,
            "title": self.experiment.title,
            "caption": self.caption,
            "alt": self.alt,
            "source": f"{self.experiment.source_file}::{self.experiment.compute.__name__}",
            "parameters": plain(self.parameters),
            "seed": plain(self.parameters.get("seed")),
            "numbers": {key: item.value for key, item in self.numbers.items()},
            "references": self.experiment.references() if self.comparable else None,
            "differences": self.differences() if self.comparable else None,
            "data_sha256": data_hash(self.arrays),
            "versions": versions(),
            "commit": commit(),
            "seconds": round(self.seconds, 3),
            "peak_memory_megabytes": peak_memory(),
        }

    def _rows(self):
        stored = self.experiment.references() if self.comparable else {}
        return [(item.meaning, item.text, reference_text(stored.get(key), item), item.asked)
                for key, item in self.numbers.items()]

    def __repr__(self):
        return (f"figure {self.name}: {self.caption}\n"
                + text_table(NUMBER_HEADER, self._rows()))

    def _ipython_display_(self):
        from IPython.display import display

        display(self.picture())
        if self.experiment.animate:
            display(Picture(self.name, self.animation(), f"Moving: {self.alt}", moves=True))
        display({"text/html": self.html(), "text/plain": repr(self)}, raw=True)

    def picture(self):
        """The drawing alone, with its alternative text, for a notebook."""
        return Picture(self.name, self.png(), self.alt)

    def html(self):
        """Caption, numbers beside their references, and a link to the code, as HTML."""
        code = self.experiment.compute
        module = code.__module__.replace(".", "/")
        link = (f'<a href="../_modules/{module}.html#{code.__name__}">'
                f"<code>{self.experiment.source_file}</code></a>")
        command = f"<code>attn-clusters figure {self.name}</code>"
        table = html_table(NUMBER_HEADER, self._rows())
        reasons = "".join(f"<li>{escape(item.meaning)}: {escape(item.why)}</li>"
                          for item in self.numbers.values() if not isinstance(item.value, int))
        limits = (f"<details><summary>What limits the digits</summary><ul>{reasons}</ul></details>"
                  if reasons else "")
        return (f'<div class="companion-figure" id="{self.name}"><p class="companion-caption">'
                f"<strong>{self.experiment.title}.</strong> {escape(self.caption)}</p>{table}{limits}"
                f'<p class="companion-source">Code: {link}. Reproduce: {command}.</p></div>')


@dataclass(frozen=True)
class Picture:
    """A PNG that a notebook shows with its alternative text."""

    name: str
    png: bytes
    alt: str
    moves: bool = False

    def __repr__(self):
        return f"<{'animation' if self.moves else 'figure'} {self.name}>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        metadata = {"alt": self.alt} | ({"moves": True} if self.moves else {})
        return {"image/png": self.png, "text/plain": repr(self)}, {"image/png": metadata}


class Sentence(str):
    """Text that a notebook shows as prose and compares as plain text."""

    def __repr__(self):
        return str(self)

    def _repr_markdown_(self):
        return str(self)


def _repr(item):
    return item.text if isinstance(item, Bounded) else repr(item.value)
