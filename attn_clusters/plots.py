"""Drawing only: arrays in, a matplotlib Figure out.

Colours are from the Okabe-Ito palette, which survives colour blindness; what must be told apart
also differs in marker, line style or lightness. Figures are built without pyplot, so that nothing is
left open.
"""

import numpy as np
from matplotlib.figure import Figure
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from .geometry import Hull

BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
LINES = ((BLUE, "-"), (VERMILION, "--"), (GREEN, "-."), (BLACK, ":"), (PURPLE, (0, (5, 1, 1, 1))),
         (ORANGE, (0, (8, 2))), (SKY, (0, (3, 1))))
MARKERS = "osD^vPX"
SIZE = {"font.size": 11}


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
    figure, axes = canvas(1, len(times), width=2.6 * len(times), height=2.9,
                          sharex=True, sharey=True)
    for axis, time, cloud in zip(axes, times, tokens, strict=True):
        hull_outline(axis, tokens[0], facecolor="none", edgecolor="0.75", alpha=1, linewidth=1)
        hull_outline(axis, cloud)
        axis.scatter(*members.T, s=34, marker="x", color="0.45", linewidth=1, zorder=2)
        axis.scatter(*vertices.T, s=70, marker="s", facecolor="none", edgecolor=VERMILION,
                     linewidth=1.6, zorder=4)
        axis.scatter(*cloud.T, s=14, color=BLACK, zorder=3, linewidth=0)
        axis.set_title(f"t = {time:g}")
        axis.set_aspect("equal")
        axis.set_xlabel("first coordinate")
    axes[0].set_ylabel("second coordinate")
    _legend_below(figure, ["tokens", "vertices of K*", "other points of S", "hull at this t"],
                  [dict(marker="o", color=BLACK, markersize=4),
                   dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                   dict(marker="x", color="0.45"), dict(marker="s", color=SKY, markersize=9)])
    return figure


def _legend_below(figure, labels, styles):
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linestyle="none", **style) for style in styles]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)


def snapshots_3d(times, tokens, vertices):
    """Tokens in space at some times, with the hull of each time and the vertices of the limit."""
    columns = min(len(times), 3)
    rows = -(-len(times) // columns)
    figure = Figure(figsize=(3.4 * columns, 3.3 * rows), layout="constrained", facecolor="white")
    for index, (time, cloud) in enumerate(zip(times, tokens, strict=True)):
        axis = figure.add_subplot(rows, columns, index + 1, projection="3d")
        _hull_surface(axis, cloud)
        axis.scatter(*cloud.T, s=12, color=BLACK, depthshade=False)
        axis.scatter(*vertices.T, s=60, marker="s", facecolors="none", edgecolors=VERMILION,
                     linewidths=1.5, depthshade=False)
        axis.set_title(f"t = {time:g}")
        _cube(axis, np.abs(tokens[0]).max())
    _legend_below(figure, ["tokens", "vertices of K*", "hull at this t"],
                  [dict(marker="o", color=BLACK, markersize=4),
                   dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                   dict(marker="s", color=SKY, markersize=9)])
    return figure


def _hull_surface(axis, cloud):
    hull = Hull(cloud, flat=1e-6)
    if hull.rank == 3:
        surface = Poly3DCollection(cloud[hull.simplices], facecolor=SKY, edgecolor=BLUE,
                                   linewidth=0.4, alpha=0.18)
        axis.add_collection3d(surface)


def _cube(axis, half):
    for limits in (axis.set_xlim, axis.set_ylim, axis.set_zlim):
        limits(-half, half)
    axis.set_box_aspect((1, 1, 1))
    ticks = [-half.round(), 0, half.round()]
    axis.set(xticks=ticks, yticks=ticks, zticks=ticks)
    axis.tick_params(labelsize=8, pad=-2)


def decay(times, distances, guide, ylabel):
    """Distance of every token against time on a logarithmic axis, with an exponential guide.

    Parameters
    ----------
    times : array, shape (T,)
    distances : array, shape (panels, T, n)
        Zero distances are left out.
    guide : float
        Rate r of the line exp(-r t) drawn beside the data.
    ylabel : str
    """
    figure, axes = canvas(1, len(distances), width=4.4 * len(distances), height=3.6, sharey=True,
                          squeeze=False)
    for axis, history, title in zip(axes[0], distances, ("Q = K = I", "other QᵀK"), strict=False):
        positive = np.where(history > 0, history, np.nan)
        axis.semilogy(times, positive, color=BLUE, alpha=0.35, linewidth=0.9)
        axis.semilogy(times, positive[:, :1] * np.nan, color=BLUE, label="one line a token")
        axis.semilogy(times, np.nanmax(positive, axis=1), color=BLACK, linewidth=1.8,
                      label="largest")
        axis.semilogy(times, history[0].max() * np.exp(-guide * times), color=VERMILION,
                      linestyle="--", label=f"exp(-{guide:g} t)")
        axis.set_xlabel("time t")
        axis.set_title(title)
    axes[0, 0].set_ylabel(ylabel)
    axes[0, 0].legend(frameon=False)
    return figure
