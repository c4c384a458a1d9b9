"""Drawings of the chapters on the sphere at low temperature: arrays in, a matplotlib Figure out."""

import numpy as np
from matplotlib.figure import Figure

from .plots import BLACK, BLUE, LINES, MARKERS, SKY, VERMILION, canvas, legend_below


def orders(betas, errors, labels, guide, guide_label, ylabel="largest distance to the limit",
           xlabel="inverse temperature beta"):
    """Errors against the inverse temperature in a double logarithmic plot, with one grey guide.

    Parameters
    ----------
    betas : array, shape (m,)
    errors : array, shape (curves, m)
        NaN where there is no point.
    labels : array of str, shape (curves,)
    guide : array, shape (m,)
        NaN where it is not drawn.
    guide_label, ylabel, xlabel : str
    """
    figure, axis = canvas(width=6.5, height=4.8)
    for number, (values, label) in enumerate(zip(errors, labels, strict=True)):
        colour, style = LINES[number]
        axis.loglog(betas, values, color=colour, linestyle=style, marker=MARKERS[number],
                    markersize=5, label=str(label))
    axis.loglog(betas, guide, color="0.6", linewidth=4, alpha=0.6, zorder=0, label=str(guide_label))
    axis.set(xlabel=str(xlabel), ylabel=str(ylabel),
             ylim=(np.nanmin(errors) / 3, np.nanmax(errors) * 3))
    if betas[-1] < 100 * betas[0]:
        axis.set_xticks(betas[::2], [f"{beta:g}" for beta in betas[::2]])
        axis.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def profiles(angles, values, betas, edge):
    """beta times distance against the angle: kinked density (left), cap with its edge (right).

    Parameters
    ----------
    angles : array, shape (m,)
    values : array, shape (2, betas, m)
    betas : array, shape (betas,)
    edge : float
        Angle of the edge of the cap.
    """
    figure, axes = canvas(1, 2, width=7.2, height=3.8)
    for axis, panel, title in zip(axes, values, ("kinked density", "cap"), strict=True):
        for (colour, style), beta, curve in zip(LINES, betas, panel, strict=False):
            axis.plot(angles, curve, color=colour, linestyle=style, linewidth=1.6,
                      label=f"beta = {beta:g}")
        axis.set(title=title, xlabel="angle to the axis")
        axis.set_xticks([-np.pi, 0, np.pi], ["-π", "0", "π"])
    axes[0].set_ylabel("beta times distance")
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("log")
    for side in (-1, 1):
        axes[1].axvspan(side * edge, side * np.pi, color="0.88", zorder=0)
        axes[0].axvline(side * np.pi / 2, color=BLACK, linewidth=0.7, linestyle=":")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return figure


def consensus(grid, levels, minimiser, consensus, attention):
    """Paths of tokens over the levels of one objective, and of the same tokens under attention.

    Parameters
    ----------
    grid : array, shape (m,)
    levels : array, shape (m, m)
        The objective on the grid.
    minimiser : array, shape (2,)
    consensus, attention : arrays, shape (T, n, 2)
    """
    figure, axes = canvas(1, 2, width=7.2, height=4.0, sharex=True, sharey=True)
    axes[0].contour(grid, grid, levels, levels=8, colors="0.75", linewidths=0.7)
    titles = ("one objective", "one for each token")
    for axis, path, title in zip(axes, (consensus, attention), titles, strict=True):
        axis.plot(*np.moveaxis(path, 2, 0), color=BLUE, alpha=0.5, linewidth=0.8)
        axis.scatter(*path[0].T, s=12, color=BLACK, linewidth=0, zorder=3)
        axis.scatter(*path[-1].T, s=60, marker="s", facecolor="none", edgecolor=VERMILION,
                     linewidth=1.6, zorder=4)
        axis.set(title=title, aspect="equal", xlabel="first coordinate")
    axes[0].scatter(*minimiser, s=90, marker="x", color=BLACK, linewidth=1.8, zorder=5)
    axes[0].set_ylabel("second coordinate")
    legend_below(figure, ["start", "end", "minimiser"],
                 [dict(marker="o", color=BLACK, markersize=4),
                  dict(marker="s", color=VERMILION, markerfacecolor="none", markersize=8),
                  dict(marker="x", color=BLACK, markersize=8)], columns=3)
    return figure


def rates(table, titles, labels):
    """Measured rates (dots) over the two predicted ones, whose minimum is the rate of the law.

    Parameters
    ----------
    table : array, shape (cases, 6)
        Panel, abscissa, measured rate, predicted rate, rate of a token, rate of escape.
    titles, labels : arrays of str, shape (panels,)
    """
    figure, axes = canvas(1, len(titles), width=7.6, height=3.7, width_ratios=(1, 2, 1.6))
    for panel, (axis, title, label) in enumerate(zip(axes, titles, labels, strict=True)):
        _, x, measured, law, token, escape = table[table[:, 0] == panel].T
        axis.plot(x, law, color="0.75", linewidth=5, zorder=0, label="smaller of both")
        axis.plot(x, token, color=BLUE, linestyle="--", label="token near E")
        axis.plot(x, escape, color=VERMILION, linestyle=":", linewidth=2, label="tokens to come")
        axis.plot(x, measured, "o", color=BLACK, markersize=6, label="measured")
        axis.set(title=title, xlabel=label, ylim=(0, 1.25 * token.max()))
        if label == "dim E":
            axis.set_xticks(x)
            axis.set_xlim(0.6, x.max() + 0.4)
    axes[0].set_ylabel("rate of W2")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def collapse(times, distances, bounds, rates, titles):
    """Distance to the limit law against time, the predicted slope and a proved bound.

    Parameters
    ----------
    times, distances, bounds : arrays, shape (panels, T)
    rates : array, shape (panels,)
    titles : array of str, shape (panels,)
    """
    figure, axes = canvas(2, 2, width=7.2, height=6.2)
    for axis, t, found, bound, rate, title in zip(axes.ravel(), times, distances, bounds, rates,
                                                  titles, strict=True):
        axis.semilogy(t, bound, color="0.7", linewidth=4, label="proved bound")
        axis.semilogy(t, found, color=BLUE, linewidth=2, label="W2, measured")
        axis.semilogy(t, found[-1] * np.exp(-rate * (t - t[-1])), color=VERMILION, linestyle="--",
                      label="rate from the spectrum")
        axis.set_title(str(title), fontsize=11)
    for axis in axes[-1]:
        axis.set_xlabel("time t")
    for axis in axes[:, 0]:
        axis.set_ylabel("distance W2")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    return figure


def lyapunov(times, gaps, tangents, bound):
    """Lyapunov function of each token and on average; tangents under their bound.

    Parameters
    ----------
    times : array, shape (T,)
    gaps, tangents : arrays, shape (T, n)
    bound : array, shape (T,)
    """
    figure, (left, right) = canvas(1, 2, width=7.2, height=3.8)
    left.plot(times, gaps, color=SKY, linewidth=0.8)
    left.plot(times, gaps.mean(axis=1), color=BLACK, linewidth=2.4, label="average")
    left.set(xlabel="time t", ylabel="mu_1 - <x, V Bᵀ x>")
    right.semilogy(times, np.maximum(tangents, 1e-9), color=SKY, linewidth=0.8)
    right.semilogy(times, bound, color=VERMILION, linestyle="--", linewidth=2.2,
                   label="proved bound")
    right.set(xlabel="time t", ylabel="tangent over its start", ylim=(1e-6, 2))
    for axis in (left, right):
        axis.plot([], [], color=SKY, label="one token each")
        axis.legend(frameon=False)
    return figure


def limit(paths, angles, density, edges, bars):
    """Tokens on the sphere and where they end, for dim E = 1 and 2; the density on the circle.

    Parameters
    ----------
    paths : array, shape (2, T, n, 3)
    angles, density : arrays, shape (m,)
    edges, bars : arrays, shapes (k + 1,) and (k,)
    """
    figure = Figure(figsize=(7.4, 6.4), layout="constrained", facecolor="white")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.5, 1))
    for column, path in enumerate(paths):
        axis = figure.add_subplot(grid[0, column], projection="3d")
        wire_sphere(axis)
        for line in np.moveaxis(path, 1, 0):
            axis.plot(*line.T, color=SKY, linewidth=0.6)
        axis.scatter(*path[0].T, s=10, color=BLACK, depthshade=False, label="start")
        axis.scatter(*path[-1].T, s=40, marker="s", facecolors="none", edgecolors=VERMILION,
                     linewidths=1.5, depthshade=False, label="end")
        axis.set_title(f"dim E = {column + 1}")
    axis = figure.add_subplot(grid[1, :])
    axis.spines[["top", "right"]].set_visible(False)
    axis.bar((edges[1:] + edges[:-1]) / 2, bars, np.diff(edges), color=SKY, edgecolor="white",
             label="tokens")
    axis.plot(angles, density, color=VERMILION, linewidth=2, label="the law itself")
    axis.set(xlabel="angle on the circle of E", ylabel="density", ylim=(0, None))
    axis.set_xticks([-np.pi, 0, np.pi], ["-π", "0", "π"])
    axis.legend(frameon=False)
    return figure


def wire_sphere(axis):
    """A pale unit sphere on a 3-d axis, without ticks."""
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
    axis.plot_wireframe(np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="0.85",
                        linewidth=0.4)
    axis.set_box_aspect((1, 1, 1), zoom=1.35)
    axis.set_axis_off()


def snapshots_sphere(times, tokens, weights):
    """Weighted tokens on the sphere at some times; the area of a dot is its weight.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n, 3)
    weights : array, shape (n,)
    """
    figure = Figure(figsize=(7.4, 2.8), layout="constrained", facecolor="white")
    for number, (time, cloud) in enumerate(zip(times, tokens, strict=True), 1):
        axis = figure.add_subplot(1, len(times), number, projection="3d")
        wire_sphere(axis)
        axis.scatter(*cloud.T, s=6 * weights / weights.mean(), color=BLUE, depthshade=True,
                     linewidth=0)
        axis.set_title(f"t = {time:g}")
    return figure
