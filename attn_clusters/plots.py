"""Drawing only: arrays in, a matplotlib Figure out.

Colours are from the Okabe-Ito palette, which survives colour blindness; what must be told apart
also differs in marker, line style or lightness. Figures are built without pyplot, so that nothing is
left open.
"""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from .geometry import Hull

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (BLACK, ":"), (PURPLE, (0, (5, 1, 1, 1))),
         (ORANGE, (0, (8, 2))), (SKY, (0, (3, 1))))
MARKERS = "osD^vPX"


def canvas(rows=1, columns=1, width=8.0, height=4.0, **options):
    """An empty figure and its axes, in this book's layout."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    axes = figure.subplots(rows, columns, **options)
    for axis in np.atleast_1d(axes).ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def lines(axis, x, curves, labels, **options):
    """One curve per label, each with its own colour and line style."""
    for (colour, style), curve, label in zip(LINES, curves, labels, strict=False):
        axis.plot(x, curve, color=colour, linestyle=style, label=label, **options)


def hull_outline(axis, tokens, **style):
    """The hull of tokens in the plane as a filled outline; a segment if it is flat."""
    corners = tokens[Hull(tokens).vertices]
    options = dict(facecolor=SKY, alpha=0.25, edgecolor=BLUE, linewidth=1.2) | style
    axis.fill(*corners.T, **options)


def snapshots_2d(times, tokens, members, vertices):
    """Tokens in the plane at some times, the hull of each time, and the limit set.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n, 2)
    members : array, shape (m, 2)
        The limit set S.
    vertices : array, shape (v, 2)
        Those of its points that are vertices.
    """
    columns, rows = min(len(times), 3), -(-len(times) // 3)
    figure, axes = canvas(rows, columns, width=2.4 * columns, height=2.45 * rows + 0.7,
                          sharex=True, sharey=True, squeeze=False)
    for axis, time, cloud in zip(axes.ravel(), times, tokens, strict=True):
        hull_outline(axis, tokens[0], facecolor="none", edgecolor="0.7", alpha=1, linewidth=1)
        hull_outline(axis, cloud)
        axis.scatter(*members.T, s=34, marker="x", color="0.45", linewidth=1, zorder=2)
        axis.scatter(*vertices.T, s=70, marker="s", facecolor="none", edgecolor=VERMILION,
                     linewidth=1.6, zorder=4)
        axis.scatter(*cloud.T, s=14, color=BLACK, zorder=3, linewidth=0)
        axis.set_title(f"t = {time:g}")
        axis.set_aspect("equal")
    label_outer(axes, "first coordinate", "second coordinate")
    legend_below(figure, ["token", "vertex of K*", "other point of S", "hull at this t"],
                 [dict(marker="o", color=BLACK, markersize=4),
                  dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                  dict(marker="x", color="0.45"), dict(marker="s", color=SKY, markersize=9)])
    return figure


def label_outer(axes, xlabel, ylabel):
    """Label the lowest row and the leftmost column of a grid of axes."""
    for axis in axes[-1]:
        axis.set_xlabel(xlabel)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)


def legend_below(figure, labels, styles, columns=2):
    """A legend of markers under the whole figure."""
    handles = [Line2D([], [], linestyle="none", **style) for style in styles]
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def snapshots_3d(times, tokens, vertices):
    """Tokens in space at some times, with the hull of each time and the vertices of the limit."""
    columns, rows = min(len(times), 2), -(-len(times) // 2)
    figure = Figure(figsize=(3.5 * columns, 3.3 * rows + 0.6), layout="constrained",
                    facecolor="white")
    half = np.ceil(np.abs(tokens[0]).max())
    for index, (time, cloud) in enumerate(zip(times, tokens, strict=True)):
        axis = figure.add_subplot(rows, columns, index + 1, projection="3d")
        hull_surface(axis, cloud)
        axis.scatter(*cloud.T, s=12, color=BLACK, depthshade=False)
        axis.scatter(*vertices.T, s=60, marker="s", facecolors="none", edgecolors=VERMILION,
                     linewidths=1.5, depthshade=False)
        axis.set_title(f"t = {time:g}")
        cube(axis, half)
    legend_below(figure, ["token", "vertex of K*", "hull at this t"],
                 [dict(marker="o", color=BLACK, markersize=4),
                  dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                  dict(marker="s", color=SKY, markersize=9)], columns=3)
    return figure


def hull_surface(axis, cloud):
    """The hull of tokens in space as a translucent surface; nothing if it is flat."""
    hull = Hull(cloud, flat=1e-6)
    if hull.rank == 3:
        surface = Poly3DCollection(cloud[hull.simplices], facecolor=SKY, edgecolor=BLUE,
                                   linewidth=0.4, alpha=0.18)
        axis.add_collection3d(surface)


def cube(axis, half):
    """Equal axes from -half to half in space."""
    for limits in (axis.set_xlim, axis.set_ylim, axis.set_zlim):
        limits(-half, half)
    axis.set_box_aspect((1, 1, 1))
    ticks = [-half, 0, half]
    axis.set(xticks=ticks, yticks=ticks, zticks=ticks)
    axis.tick_params(labelsize=9, pad=-2)


def paths_2d(tokens, labels, vertices, outline):
    """Paths of tokens in the plane, coloured by where they end.

    Parameters
    ----------
    tokens : array, shape (T, n, 2)
    labels : array of int, shape (n,)
        Index of the vertex at which each token ends.
    vertices : array, shape (v, 2)
    outline : array, shape (m, 2)
        Tokens whose hull is drawn.
    """
    figure, axis = canvas(width=6.5, height=6.0)
    hull_outline(axis, outline, facecolor="none", edgecolor="0.7", alpha=1)
    hull_outline(axis, vertices, alpha=0.15)
    for number, vertex in enumerate(vertices):
        colour = LINES[number % len(LINES)][0]
        group = tokens[:, labels == number]
        axis.plot(*np.moveaxis(group, 2, 0), color=colour, linewidth=0.7, alpha=0.55)
        axis.scatter(*group[0].T, s=9, color=colour, linewidth=0)
        axis.scatter(*vertex, s=110, marker=MARKERS[number % len(MARKERS)], color=colour,
                     edgecolor=BLACK, zorder=4)
    axis.set_aspect("equal")
    axis.set(xlabel="first coordinate", ylabel="second coordinate")
    return figure


def decay(times, distances, titles, guide, ylabel):
    """Distance of every token against time on a logarithmic axis, with an exponential guide.

    Parameters
    ----------
    times : array, shape (T,)
    distances : array, shape (panels, T, n)
        Zero distances are left out.
    titles : array of str, shape (panels,)
    guide : float
        Rate r of the line exp(-r t) drawn beside the data.
    ylabel : str
    """
    columns, rows = min(len(distances), 2), -(-len(distances) // 2)
    figure, axes = canvas(rows, columns, width=3.6 * columns, height=3.0 * rows, sharey=True,
                          sharex=True, squeeze=False)
    for axis, history, title in zip(axes.ravel(), distances, titles, strict=True):
        positive = np.where(history > 0, history, np.nan)
        axis.semilogy(times, positive, color=SKY, alpha=0.6, linewidth=0.8)
        axis.semilogy(times, history.max(axis=1), color=BLACK, linewidth=1.8, label="largest")
        axis.semilogy(times, history[0].max() * np.exp(-guide * times), color=VERMILION,
                      linestyle="--", label=f"slope of exp(-{guide:g} t)")
        axis.plot([], [], color=SKY, label="one token each")
        axis.set_title(title)
    label_outer(axes, "time t", ylabel)
    axes[0, 0].legend(frameon=False, fontsize=9)
    return figure


def curves(x, values, labels, xlabel, ylabel, scale="linear"):
    """Several curves over one axis.

    Parameters
    ----------
    x : array, shape (m,)
    values : array, shape (curves, m)
    labels : array of str, shape (curves,)
    xlabel, ylabel : str
    scale : str
        Scale of the vertical axis.
    """
    figure, axis = canvas(width=6.5, height=4.2)
    lines(axis, x, values, labels, linewidth=1.8)
    axis.set(xlabel=xlabel, ylabel=ylabel, yscale=scale)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def counts(values, frequencies, labels, xlabel, ylabel):
    """Bars side by side: how often each whole number occurred in several samples.

    Parameters
    ----------
    values : array of int, shape (m,)
    frequencies : array, shape (samples, m)
    labels : array of str, shape (samples,)
    """
    figure, axis = canvas(width=6.5, height=3.6)
    width, hatches = 0.8 / len(frequencies), ("", "//", "..")
    for number, (heights, label) in enumerate(zip(frequencies, labels, strict=True)):
        shift = (number - (len(frequencies) - 1) / 2) * width
        axis.bar(values + shift, heights, width, color=(BLUE, ORANGE, GREEN)[number % 3],
                 hatch=hatches[number % 3], edgecolor="white", label=label)
    axis.set(xlabel=xlabel, ylabel=ylabel, xticks=values)
    axis.legend(frameon=False)
    return figure


def symmetric_2d(tokens, ends, broken, members, vertices):
    """Symmetric tokens: where they start, where they end exactly, where rounding takes them.

    Parameters
    ----------
    tokens, ends, broken : arrays, shape (n, 2)
    members, vertices : arrays, shapes (m, 2) and (v, 2)
        The limit set S and those of its points that are vertices.
    """
    figure, axes = canvas(1, 3, width=7.2, height=3.9, sharex=True, sharey=True)
    titles = ("t = 0", "end, symmetry kept", "end, plain float64")
    for axis, title, cloud in zip(axes, titles, (tokens, ends, broken), strict=True):
        hull_outline(axis, vertices, alpha=0.15)
        axis.scatter(*members.T, s=70, marker="x", color="0.35", linewidth=1.2)
        axis.scatter(*vertices.T, s=90, marker="s", facecolor="none", edgecolor=VERMILION,
                     linewidth=1.6, zorder=4)
        axis.scatter(*cloud.T, s=16, color=BLACK, zorder=3, linewidth=0)
        axis.set_title(title, fontsize=11)
        axis.set_aspect("equal")
    label_outer(axes[None], "first coordinate", "second coordinate")
    legend_below(figure, ["token", "vertex of K*", "point of S"],
                 [dict(marker="o", color=BLACK, markersize=4),
                  dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                  dict(marker="x", color="0.35")], columns=3)
    return figure


def rescaling(times, norms, tokens):
    """Sizes of the tokens x_i, which explode, beside paths of z_i = e^{-tV} x_i, which settle.

    Parameters
    ----------
    times : array, shape (T,)
    norms : array, shape (T, n)
        |x_i(t)|.
    tokens : array, shape (T, n, 2)
        z_i(t).
    """
    figure, (left, right) = canvas(1, 2, width=7.2, height=3.5)
    left.semilogy(times, norms, color=BLUE, alpha=0.6, linewidth=0.9)
    left.set(xlabel="time t", ylabel="size of the tokens, |x|", title="tokens x")
    right.plot(*np.moveaxis(tokens, 2, 0), color=BLUE, alpha=0.6, linewidth=0.9)
    right.scatter(*tokens[0].T, s=18, facecolor="white", edgecolor=BLACK, zorder=3, label="t = 0")
    right.scatter(*tokens[-1].T, s=30, color=VERMILION, marker="s", zorder=4,
                  label=f"t = {times[-1]:g}")
    right.set(xlabel="first coordinate", ylabel="second coordinate", title="rescaled tokens z")
    right.set_aspect("equal", "datalim")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def work_precision(evaluations, errors, labels, marked):
    """Path error against evaluations of the flow, one curve per method.

    Parameters
    ----------
    evaluations, errors : arrays, shape (methods, m)
        NaN where a method has fewer points.
    labels : array of str, shape (methods,)
    marked : array, shape (2,)
        Evaluations and error of one run to point out.
    """
    figure, axis = canvas(width=6.5, height=4.2)
    for number, label in enumerate(labels):
        colour, style = LINES[number % len(LINES)]
        axis.loglog(evaluations[number], errors[number], color=colour, linestyle=style,
                    marker=MARKERS[number % len(MARKERS)], markersize=5, label=label)
    axis.scatter(*marked, s=160, facecolor="none", edgecolor=BLACK, linewidth=1.6, zorder=4)
    axis.annotate("Euler, step 0.1", marked, xytext=(12, 8), textcoords="offset points")
    axis.set(xlabel="evaluations of the flow", ylabel="largest error along the path")
    axis.legend(frameon=False)
    return figure
