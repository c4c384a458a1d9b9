"""Drawings for the chapters on collapse, on stability and beyond the theorems."""

import numpy as np

from .plots import (
    BLACK,
    BLUE,
    LINES,
    MARKERS,
    ORANGE,
    SKY,
    VERMILION,
    canvas,
    legend_below,
    lines,
)


def log_curves(axis, x, measured, labels, guides=(), guide_labels=()):
    """Measured curves with markers and guides without, on logarithmic axes."""
    for number, (curve, label) in enumerate(zip(measured, labels, strict=True)):
        axis.loglog(x, curve, color=LINES[number][0], marker=MARKERS[number], markersize=5,
                    linestyle="none", label=label)
    for curve, label, style in zip(guides, guide_labels, ("--", ":", "-."), strict=False):
        axis.loglog(x, curve, color=BLACK, linestyle=style, linewidth=1.3, label=label)


def collapse(times, norms, radius, means, means_predicted, means_early, attention,
             attention_predicted, covariances):
    """Four views of the fall to 0, on logarithmic axes.

    Parameters
    ----------
    times : array, shape (T,)
        Positive.
    norms : array, shape (T, n)
        |x_i|; `radius`, shape (T,), is the predicted largest.
    means, means_predicted, means_early : arrays, shape (T,)
        |mean of the tokens|, its prediction for late times and for early ones.
    attention, attention_predicted : arrays, shape (T,)
        Largest |n P_ij - 1| and its prediction.
    covariances : array, shape (T, d)
        Eigenvalues of 2t times the tokens' covariance.
    """
    figure, ((first, second), (third, fourth)) = canvas(2, 2, width=7.2, height=6.6)
    first.loglog(times, norms, color=SKY, alpha=0.6, linewidth=0.8)
    first.loglog(times, norms.max(axis=1), color=BLACK, linewidth=1.8, label="largest |x|")
    first.loglog(times, radius, color=VERMILION, linestyle="--", label="c / sqrt(2t)")
    first.set(title="tokens", ylim=(norms[-1].min() / 2, 2 * norms.max()))
    second.loglog(times, means, color=BLUE, linewidth=1.8, label="|mean|")
    second.loglog(times, means_early, color=BLACK, linestyle=":", label="c exp(-t) / sqrt(2t)")
    second.loglog(times, means_predicted, color=VERMILION, linestyle="--", label="predicted, late")
    second.set_ylim(means.min() / 5, means.max() * 5)
    second.set_title("mean of the tokens")
    third.loglog(times, attention, color=BLUE, linewidth=1.8, label="largest |n P - 1|")
    third.loglog(times, attention_predicted, color=VERMILION, linestyle="--", label="c / (2t)")
    third.set(title="attention matrix", ylim=(attention[-1] / 2, 2 * attention.max()))
    fourth.semilogx(times, covariances, color=BLUE, linewidth=1.8)
    fourth.axhline(1.0, color=VERMILION, linestyle="--", label="1")
    fourth.plot([], [], color=BLUE, label="eigenvalues of 2t cov")
    fourth.set(title="shape of the cloud", ylim=(0, 4))
    for axis in (first, second, third, fourth):
        axis.set_xlabel("time t")
        axis.legend(frameon=False, fontsize=9)
    return figure


def scaling(x, measured, labels, guides, guide_labels, xlabel, ylabel):
    """Measured points and guide lines over one pair of logarithmic axes.

    Parameters
    ----------
    x : array, shape (m,)
    measured, guides : arrays, shape (curves, m)
    labels, guide_labels : arrays of str
    """
    figure, axis = canvas(width=6.5, height=4.6)
    log_curves(axis, x, measured, labels, guides, guide_labels)
    axis.set(xlabel=xlabel, ylabel=ylabel)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def amplification(times, ratios, bounds, labels, titles):
    """W2 at time t over W2 at time 0, for several perturbations and two flows, beside a bound.

    Parameters
    ----------
    times : array, shape (T,)
    ratios : array, shape (flows, perturbations, T)
    bounds : array, shape (flows, T)
        Not drawn where it leaves the axes.
    labels, titles : arrays of str
    """
    figure, axes = canvas(1, len(titles), width=7.2, height=4.2)
    for axis, curves, bound, title in zip(axes, ratios, bounds, titles, strict=True):
        lines(axis, times, curves, labels, linewidth=1.8)
        axis.plot(times, bound, color=BLACK, linewidth=2.4, label="bound")
        axis.set(yscale="log", xlabel="time t", title=title,
                 ylim=(curves.min() / 1.5, min(bound.max(), 1e3 * curves.max())))
    axes[0].set_ylabel("W2(t) / W2(0)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2,
                  frameon=False)
    return figure


def paths(tokens, ends, titles, normals=None):
    """Paths of tokens in the plane, several runs side by side.

    Parameters
    ----------
    tokens : array, shape (panels, T, n, 2)
        Each panel has its own scale.
    ends : array, shape (panels, n, 2)
        Where the tokens are at the last time.
    titles : array of str, shape (panels,)
    normals : array, shape (panels, 2), optional
        Draw the lines <normal, z> = smallest, 0 and largest value at the last time.
    """
    rows = -(-len(tokens) // 2)
    figure, axes = canvas(rows, 2, width=7.2, height=3.5 * rows + 0.4)
    for number, (axis, path, end, title) in enumerate(zip(axes.ravel(), tokens, ends, titles,
                                                          strict=False)):
        axis.plot(path[..., 0], path[..., 1], color=SKY, linewidth=0.7, alpha=0.8)
        axis.scatter(*path[0].T, s=14, facecolor="none", edgecolor="0.5", linewidth=0.8)
        axis.scatter(*end.T, s=26, marker="s", color=VERMILION, edgecolor=BLACK, linewidth=0.5,
                     zorder=3)
        if normals is not None:
            _levels(axis, normals[number], end)
        axis.set_title(title, fontsize=11)
        axis.set_aspect("equal", adjustable="datalim")
        axis.tick_params(labelsize=9)
    for axis in axes.ravel()[len(tokens):]:
        axis.set_visible(False)
    legend_below(figure, ["tokens at t = 0", "tokens at the last time"],
                 [dict(marker="o", markerfacecolor="none", color="0.5"),
                  dict(marker="s", color=VERMILION)])
    return figure


def _levels(axis, normal, points):
    levels = points @ normal
    for level in (min(levels.min(), 0.0), 0.0, max(levels.max(), 0.0)):
        through = level * normal / (normal @ normal)
        axis.axline(through, slope=-normal[0] / normal[1], color="0.6", linewidth=0.8,
                    linestyle="--", zorder=0)


def levels(times, values, titles, ylabel):
    """phi_1* of every token against time, several runs side by side.

    Parameters
    ----------
    times : array, shape (T,)
    values : array, shape (panels, T, n)
    titles : array of str, shape (panels,)
    """
    figure, axes = canvas(2, 2, width=7.2, height=5.6, sharex=True)
    for axis, curves, title in zip(axes.ravel(), values, titles, strict=True):
        axis.plot(times, curves[:, curves[0] > 0], color=VERMILION, linewidth=0.9)
        axis.plot(times, curves[:, curves[0] <= 0], color=BLUE, linewidth=0.9, linestyle="--")
        axis.axhline(0.0, color="0.6", linewidth=0.8)
        axis.set_title(title, fontsize=11)
    for axis in axes[-1]:
        axis.set_xlabel("time t")
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    return figure


def scatter(x, values, labels, xlabel, ylabel, scale="linear"):
    """Several clouds of points over one axis.

    Parameters
    ----------
    x : array, shape (m,)
    values : array, shape (clouds, m)
    labels : array of str, shape (clouds,)
    """
    figure, axis = canvas(width=6.5, height=4.4)
    colours = (ORANGE, BLUE, BLACK)
    for number, (cloud, label) in enumerate(zip(values, labels, strict=True)):
        axis.scatter(x, cloud, s=26, marker=MARKERS[number], color=colours[number], alpha=0.75,
                     label=label, linewidth=0)
    axis.axvline(0.0, color="0.6", linewidth=0.8)
    axis.set(xlabel=xlabel, ylabel=ylabel, yscale=scale)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def two_tokens(distances, exact, leading, simulated, error_plain, error_apart):
    """The limit c(e) of two tokens, and the error of two simulations of it.

    Parameters
    ----------
    distances : array, shape (m,)
        e, half the distance at t = 0.
    exact, leading, simulated : arrays, shape (m,)
        c from the closed form, from its leading order, and from the flow.
    error_plain, error_apart : arrays, shape (m,)
        |simulated - exact| / c with scores as they stand and without the tokens' common part.
    """
    figure, (left, right) = canvas(1, 2, width=7.2, height=4.0)
    left.semilogy(distances, exact, color=BLUE, label="closed form")
    left.semilogy(distances, leading, color=VERMILION, linestyle="--", label="leading order")
    left.semilogy(distances, simulated, color=BLACK, linestyle="none", marker="o", markersize=4,
                  label="two tokens, simulated")
    left.set_ylabel("limit c(e)")
    floor = 1e-16
    right.semilogy(distances, np.maximum(error_plain, floor), color=VERMILION, marker="s",
                   markersize=4, linestyle="none", label="scores as they stand")
    right.semilogy(distances, np.maximum(error_apart, floor), color=BLUE, marker="o",
                   markersize=4, linestyle="none", label="common part left out")
    right.axhline(1e-10, color=BLACK, linestyle=":", label="1e-10")
    right.set_ylabel("relative error of c")
    for axis in (left, right):
        axis.set_xlabel("half distance e at t = 0")
        axis.legend(frameon=False, fontsize=9)
    return figure


def splitting(times, halves, limits, attention, labels):
    """Half distance of two rescaled tokens and their attention to themselves, against time.

    Parameters
    ----------
    times : array, shape (T,)
    halves, attention : arrays, shape (starts, T)
    limits : array, shape (starts,)
    labels : array of str, shape (starts,)
    """
    figure, (left, right) = canvas(1, 2, width=7.2, height=4.0)
    lines(left, times, halves, labels, linewidth=1.8)
    for (colour, _), limit in zip(LINES, limits, strict=False):
        left.axhline(limit, color=colour, linewidth=0.9, linestyle=":")
    left.set(yscale="log", xlabel="time t", ylabel="half distance of the rescaled tokens")
    lines(right, times, attention, labels, linewidth=1.8)
    right.set(xlabel="time t", ylabel="P of a token to itself", ylim=(0.45, 1.02))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  frameon=False)
    return figure
