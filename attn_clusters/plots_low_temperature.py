"""Drawings of the chapters on low temperature: arrays in, a Figure out, as in `plots`."""

import numpy as np
from matplotlib.colors import LogNorm

from .plots import BLACK, BLUE, GREEN, LINES, MARKERS, ORANGE, SKY, VERMILION, canvas

SHADES = ("#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#0b519c", "#08306b")


def shades(number):
    """Blues from light to dark, one for each of an ordered family of curves."""
    places = np.linspace(0, len(SHADES) - 1, number).round().astype(int)
    return [SHADES[place] for place in places]


def angle_paths(axis, times, angles, **style):
    """Angles in degrees against time, cut where a path passes 180 degrees."""
    angles = np.array(angles, float)
    jumps = np.abs(np.diff(angles, axis=0)) > 180
    angles[1:][jumps] = np.nan
    axis.plot(times, angles, **(dict(color=BLUE, linewidth=0.8, alpha=0.6) | style))
    axis.set(ylim=(-180, 180), yticks=(-180, -90, 0, 90, 180))


def three_phases(times, angles, collapsed, terminal, waiting):
    """Token angles over time, and below them the distances to both limits.

    Parameters
    ----------
    times : array, shape (T,)
    angles : array, shape (T, n)
        In degrees.
    collapsed, terminal : array, shape (T,)
        Distances to the collapsed law and to the terminal law.
    waiting : array, shape (2,)
        Start and end of the waiting phase.
    """
    figure, axes = canvas(2, 1, width=6.5, height=5.0, sharex=True, height_ratios=(1.1, 1))
    angle_paths(axes[0], times, angles)
    axes[0].set_ylabel("angle (degrees)")
    axes[1].plot(times, collapsed, color=BLACK, linewidth=2, label="to the collapsed law")
    axes[1].plot(times, terminal, color=VERMILION, linewidth=2, linestyle="--", label="to e₂")
    axes[1].set(xlabel="time t", ylabel="W2 distance", ylim=(0, 2.0))
    axes[1].legend(frameon=False, ncols=2, loc="upper center")
    for axis in axes:
        axis.axvspan(*waiting, color="0.9", zorder=0)
        for moment in waiting:
            axis.axvline(moment, color="0.4", linewidth=1)
    edges = np.array([times[0], *waiting, times[-1]])
    for middle, word in zip((edges[1:] + edges[:-1]) / 2, ("collapse", "waiting", "departure"),
                            strict=True):
        axes[0].text(middle, 192, word, ha="center", fontweight="bold")
    axes[0].set_xlim(times[0], times[-1])
    return figure


def distance_curves(betas, times, distances, bound, guides):
    """Distance against time, one curve for each beta; beside it, the bound for three of them.

    Parameters
    ----------
    betas : array, shape (b,)
    times : array, shape (T,)
    distances, bound, guides : array, shape (b, T)
        Measured; the theorem's bound; the predicted second term.
    """
    figure, axes = canvas(1, 2, width=7.4, height=4.3, sharey=True)
    for colour, beta, row, guide in zip(shades(len(betas)), betas, distances, guides, strict=True):
        axes[0].semilogy(times, row, color=colour, linewidth=1.6, label=f"β = {beta:g}")
        shown = (guide > row.min()) & (guide < 3)
        axes[0].semilogy(times[shown], guide[shown], color=VERMILION, linestyle="--", linewidth=0.9)
    axes[0].legend(frameon=False, fontsize=9, labelspacing=0.2)
    for (colour, _), place in zip(LINES, (0, len(betas) // 2, len(betas) - 1), strict=False):
        axes[1].semilogy(times, distances[place], color=colour, label=f"β = {betas[place]:g}")
        axes[1].semilogy(times, bound[place], color=colour, linestyle=":")
    axes[1].legend(frameon=False, fontsize=9)
    axes[0].set(ylim=(distances.min() / 2, 30), xlabel="time t",
                ylabel="W2 distance to the collapsed law", title="data, second term (dashed)")
    axes[1].set(xlabel="time t", title="data and bound (dotted)")
    return figure


def distance_map(betas, times, distances, ridge, departure, slopes):
    """Distance over time and log beta, with the ridge of least distance and the departure.

    Parameters
    ----------
    betas : array, shape (b,)
    times : array, shape (T,)
    distances : array, shape (b, T)
    ridge, departure : array, shape (b,)
        Times of the closest approach and of departure.
    slopes : array, shape (2,)
        Their predicted slopes in log beta.
    """
    figure, axis = canvas(width=6.5, height=4.2)
    mesh = axis.pcolormesh(times, betas, distances, cmap="cividis", shading="gouraud",
                           norm=LogNorm(distances.min(), distances.max()), rasterized=True)
    logs = np.log(betas / betas[-1])
    for curve, slope, colour, word in zip((ridge, departure), slopes, ("white", "black"),
                                          ("closest", "distance 1"), strict=True):
        axis.plot(curve, betas, color=colour, linewidth=2, marker="o", markersize=4)
        axis.plot(curve[-1] + slope * logs, betas, color=colour, linestyle="--", linewidth=1.2)
        axis.text(curve[-1], betas[-1] * 1.08, word, ha="center")
    axis.set(yscale="log", xlabel="time t", ylabel="inverse temperature β",
             xlim=(times[0], times[-1]))
    figure.colorbar(mesh, label="W2 distance")
    return figure


def closest_approach(betas, least, bound, crossed, theory):
    """Least distance, least bound and the part of the crossing mass against beta; each (b,)."""
    figure, axis = canvas(width=6.0, height=4.2)
    axis.loglog(betas, bound, color=VERMILION, linestyle="--", label="least value of the bound")
    axis.loglog(betas, least, color=BLUE, marker="o", label="least distance")
    axis.loglog(betas, crossed, color=BLACK, marker="s", linestyle="none", fillstyle="none",
                label="2 √(mass that crosses)")
    axis.loglog(betas, theory, color=BLACK, linestyle=":", label="its prediction")
    axis.set(xlabel="inverse temperature β", ylabel="W2 distance")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def scaled_curves(x, values, labels, xlabel, ylabel, guides, guide_labels, low):
    """Positive curves on a logarithmic axis, with thin guides in grey.

    Parameters
    ----------
    x : array, shape (m,)
    values : array, shape (curves, m)
    labels : array of str, shape (curves,)
    xlabel, ylabel : str
    guides : array, shape (guides, m)
    guide_labels : array of str, shape (guides,)
    low : float
        Least value shown.
    """
    figure, axis = canvas(width=6.5, height=4.4)
    for (colour, style), curve, label in zip(LINES, values, labels, strict=False):
        shown = np.where(curve > low, curve, np.nan)
        axis.semilogy(x, shown, color=colour, linestyle=style, linewidth=1.8, label=label)
    for style, guide, label in zip((":", (0, (6, 2)), "-."), guides, guide_labels, strict=False):
        inside = np.where((guide > low) & (guide < 2), guide, np.nan)
        axis.semilogy(x, inside, color="0.45", linestyle=style, linewidth=1.2, label=label)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=10)
    return figure


def times_and_lines(x, groups, spreads, lines, labels, xlabel, ylabel):
    """Times against a logarithmic abscissa: markers with error bars, and predicted lines.

    Parameters
    ----------
    x : array, shape (m,)
    groups, spreads, lines : array, shape (groups, m)
        Times, their standard errors, and predictions.
    labels : array of str, shape (groups,)
    xlabel, ylabel : str
    """
    figure, axis = canvas(width=6.0, height=4.2)
    for (colour, style), marker, values, spread, line, label in zip(
            LINES, MARKERS, groups, spreads, lines, labels, strict=False):
        axis.errorbar(x, values, spread, color=colour, marker=marker, linestyle="none", capsize=3,
                      label=label)
        axis.plot(x, line, color=colour, linestyle=style, linewidth=1.2)
    axis.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.minorticks_off()
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def random_departures(few, few_means, few_errors, many, many_means, many_errors, line):
    """Departure times against the number of tokens, as they are and rounded to bins.

    Parameters
    ----------
    few, few_means, few_errors : array, shape (m,)
    many, many_means, many_errors, line : array, shape (k,)
        The same for rounded tokens, and the predicted line.
    """
    figure, axis = canvas(width=6.0, height=4.2)
    axis.errorbar(few, few_means, few_errors, color=BLUE, marker="o", linestyle="none", capsize=3,
                  label="n tokens")
    axis.errorbar(many, many_means, many_errors, color=VERMILION, marker="s", linestyle="none",
                  capsize=3, label="n tokens, rounded to bins")
    axis.plot(many, line, color=BLACK, linestyle="--", linewidth=1.2, label="predicted slope")
    axis.set(xscale="log", xlabel="number of tokens n", ylabel="time of departure")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def path_panels(times, angles, titles, marks):
    """Token angles against time in panels, with the predicted angles marked at the right.

    Parameters
    ----------
    times : array, shape (panels, T)
    angles : array, shape (panels, T, n)
        In degrees.
    titles : array of str, shape (panels,)
    marks : array, shape (panels, m)
        Angles in degrees of the principal eigenspace of V; NaN for none.
    """
    rows = -(-len(angles) // 2)
    figure, axes = canvas(rows, 2, width=7.2, height=2.5 * rows + 0.3, sharey=True, squeeze=False)
    for axis, time, path, title, mark in zip(axes.flat, times, angles, titles, marks, strict=False):
        angle_paths(axis, time, path)
        axis.plot(np.full(len(mark), time[-1] * 1.04), mark, color=VERMILION, marker="<",
                  linestyle="none", clip_on=False)
        axis.set_title(title, fontsize=10)
        axis.set_xlim(0, time[-1] * 1.04)
    for axis in axes.flat[len(angles):]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("time t")
    for axis in axes[:, 0]:
        axis.set_ylabel("angle (degrees)")
    return figure


def shares(labels, held, counts, low, high):
    """Shares with confidence intervals as horizontal bars, counts beside them.

    Parameters
    ----------
    labels : array of str, shape (groups,)
    held, counts : array of int, shape (groups,)
    low, high : array, shape (groups,)
        Confidence interval of the share.
    """
    figure, axis = canvas(width=6.8, height=0.55 * len(labels) + 1.3)
    rows = np.arange(len(labels))[::-1]
    share = held / counts
    axis.barh(rows, share, 0.6, color=SKY, edgecolor=BLUE)
    axis.errorbar(share, rows, xerr=np.abs([share - low, high - share]), color=BLACK,
                  linestyle="none", capsize=4)
    axis.set_yticks(rows, labels)
    for row, hits, count in zip(rows, held, counts, strict=True):
        axis.text(1.03, row, f"{hits} of {count}", va="center")
    axis.set(xlim=(0, 1.0), xlabel="share of instances on which the conjecture holds")
    return figure


def exceptions(tokens, spaces, titles):
    """Last tokens of runs in the plane, with the principal eigenspace of V as a line.

    Parameters
    ----------
    tokens : array, shape (panels, n, 2)
    spaces : array, shape (panels, 2)
        A unit vector of the principal eigenspace; NaN for a plane.
    titles : array of str, shape (panels,)
    """
    columns = 4
    rows = -(-len(tokens) // columns)
    figure, axes = canvas(rows, columns, width=7.2, height=2.1 * rows + 0.5, squeeze=False)
    turn = np.linspace(0, 2 * np.pi, 100)
    for axis, cloud, vector, title in zip(axes.flat, tokens, spaces, titles, strict=False):
        axis.plot(np.cos(turn), np.sin(turn), color="0.8", linewidth=1)
        axis.plot(*np.outer(vector, (-1.15, 1.15)), color=VERMILION, linestyle="--", linewidth=1.4)
        axis.plot(*cloud.T, color=BLUE, marker="o", markersize=5, linestyle="none", alpha=0.5)
        axis.set_title(title, fontsize=10)
    for axis in axes.flat:
        axis.set(aspect="equal", xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), xticks=(), yticks=())
        axis.spines[:].set_visible(False)
    return figure


def sphere_distances(times, distances, labels, second, second_labels):
    """Distances on S^2 against time: two atoms, and a measure on a circle; (curves, T) each."""
    figure, axes = canvas(1, 2, width=7.4, height=3.9, sharey=True)
    for axis, curves, words, title in zip(axes, (distances, second), (labels, second_labels),
                                          ("E a line: two atoms", "E a plane: a circle"),
                                          strict=True):
        for colour, curve, word in zip((SKY, BLUE, BLACK, GREEN, ORANGE), curves, words,
                                       strict=False):
            axis.semilogy(times, curve, color=colour, label=word, linewidth=1.6)
        axis.set(xlabel="time t", title=title)
        axis.legend(frameon=False, fontsize=9)
    axes[0].set_ylabel("distance to the collapsed law")
    return figure
