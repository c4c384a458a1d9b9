"""Drawings of tokens with the lines, planes and walls that they approach."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from .plots import BLACK, BLUE, LINES, ORANGE, SKY, VERMILION, canvas, label_outer, legend_below


def box(tokens):
    """A round half-width that holds all tokens shown."""
    return float(np.ceil(np.abs(tokens).max()))


def tokens_and_lines(times, tokens, segments=None, marks=None):
    """Tokens in the plane at some times, with the limiting lines or points.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n, 2)
    segments : array, shape (m, 2, 2), optional
        Ends of the lines' visible parts.
    marks : array, shape (p, 2), optional
        Points to mark.
    """
    columns, rows = min(len(times), 2), -(-len(times) // 2)
    figure, axes = canvas(rows, columns, width=3.5 * columns, height=3.2 * rows + 0.4,
                          sharex=True, sharey=True, squeeze=False)
    half = 1.1 * box(tokens)
    for axis, time, cloud in zip(axes.ravel(), times, tokens, strict=True):
        if segments is not None:
            axis.add_collection(LineCollection(segments, color=VERMILION, linewidth=1.3,
                                               linestyle="--"))
        if marks is not None:
            axis.scatter(*marks.T, s=90, marker="s", facecolor="none", edgecolor=VERMILION)
        axis.scatter(*cloud.T, s=16, color=BLACK, zorder=3, linewidth=0)
        axis.set(title=f"t = {time:g}", xlim=(-half, half), ylim=(-half, half), aspect="equal")
    label_outer(axes, "first coordinate", "second coordinate")
    return figure


def tokens_and_walls(times, tokens, halves, walls=None, segments=None, marks=None):
    """Tokens in space at some times, with limiting planes or walls, lines, and points.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n, 3)
    halves : array, shape (3,)
        Half-widths of the box drawn, axis by axis.
    walls : array, shape (m, 4, 3), optional
        Corners of quadrilaterals.
    segments : array, shape (p, 2, 3), optional
        Ends of the lines' visible parts.
    marks : array, shape (q, 3), optional
    """
    columns, rows = min(len(times), 2), -(-len(times) // 2)
    figure = Figure(figsize=(3.5 * columns, 3.3 * rows + 0.5), layout="constrained",
                    facecolor="white")
    for index, (time, cloud) in enumerate(zip(times, tokens, strict=True)):
        axis = figure.add_subplot(rows, columns, index + 1, projection="3d")
        if walls is not None:
            axis.add_collection3d(Poly3DCollection(walls, facecolor=SKY, edgecolor=BLUE,
                                                   alpha=0.25, linewidth=0.6))
        if segments is not None:
            axis.add_collection3d(Line3DCollection(segments, color=VERMILION, linewidth=1.6))
        if marks is not None:
            axis.scatter(*marks.T, s=60, marker="s", facecolors="none", edgecolors=VERMILION,
                         depthshade=False)
        axis.scatter(*cloud.T, s=12, color=BLACK, depthshade=False)
        axis.set_title(f"t = {time:g}")
        for name, half in zip("xyz", halves, strict=True):
            axis.set(**{f"{name}lim": (-half, half), f"{name}ticks": [-half, 0, half]})
        axis.set_box_aspect((1, 1, 1))
        axis.tick_params(labelsize=9, pad=-2)
        axis.view_init(elev=18, azim=-60)
    return figure


def levels(times, values, limits, titles):
    """phi_1*(z_i) against time, one panel per run, and the levels that it approaches.

    Parameters
    ----------
    times : array, shape (T,)
    values : array, shape (panels, T, n)
    limits : array, shape (panels, 3)
        The levels a, 0, b.
    titles : array of str, shape (panels,)
    """
    figure, axes = canvas(1, len(values), width=7.2, height=3.6, sharey=True, squeeze=False)
    for axis, history, lines, title in zip(axes[0], values, limits, titles, strict=True):
        axis.plot(times, history, color=BLUE, linewidth=0.8, alpha=0.7)
        for level in lines:
            axis.axhline(level, color=VERMILION, linestyle="--", linewidth=1.2)
        axis.set_title(title, fontsize=11)
    label_outer(axes, "time t", "level φ₁*(z)")
    handles = [dict(marker="_", color=BLUE, markersize=14), dict(marker="_", color=VERMILION,
                                                                 markersize=14)]
    legend_below(figure, ["one token each", "levels a, 0, b"], handles)
    return figure


def fates(values, frequencies, labels):
    """Bars: in how many random draws which outcome was found, for several ensembles.

    Parameters
    ----------
    values : array of str, shape (m,)
        Outcomes.
    frequencies : array of int, shape (ensembles, m)
    labels : array of str, shape (ensembles,)
    """
    figure, axis = canvas(width=7.2, height=3.6)
    places, width = np.arange(len(values)), 0.8 / len(frequencies)
    for number, (heights, label) in enumerate(zip(frequencies, labels, strict=True)):
        shift = (number - (len(frequencies) - 1) / 2) * width
        bars = axis.barh(places + shift, heights, width, label=label, edgecolor="white",
                         color=(BLUE, ORANGE, SKY)[number % 3], hatch=("", "//", "..")[number % 3])
        axis.bar_label(bars, padding=3, fontsize=10)
    axis.set(yticks=places, xlabel="draws")
    axis.set_yticklabels(values)
    axis.invert_yaxis()
    axis.legend(frameon=False, loc="lower right")
    return figure


def decays(times, distances, titles, ylabel):
    """Largest distance over the tokens against time, one curve per run, on a logarithmic axis.

    Parameters
    ----------
    times : array, shape (T,)
    distances : array, shape (runs, T)
    titles : array of str, shape (runs,)
    """
    figure, axis = canvas(width=6.5, height=3.8)
    for (colour, style), history, title in zip(LINES, distances, titles, strict=False):
        axis.semilogy(times, history, color=colour, linestyle=style, linewidth=1.8, label=title)
    axis.set(xlabel="time t", ylabel=ylabel)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
