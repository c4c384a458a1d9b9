"""Drawing of the chapters on many dimensions and on trained models."""

import numpy as np

from .plots import BLACK, BLUE, GREEN, LINES, ORANGE, SKY, VERMILION, canvas, lines


def rank_falls(times, ranks, shown, singular_values, labels):
    """Numerical rank of P(t) against time, and the singular values at some times.

    Parameters
    ----------
    times : array, shape (T,)
    ranks : array, shape (draws, T)
    shown : array, shape (S,)
        Times of the second panel.
    singular_values : array, shape (S, n)
        Of the first draw, relative to the largest.
    labels : array of str, shape (draws,)
    """
    figure, (left, right) = canvas(1, 2, width=7.8, height=3.5)
    for (colour, style), rank, label in zip(LINES, ranks, labels, strict=False):
        left.step(times, rank, where="post", color=colour, linestyle=style, label=label)
    left.set(xlabel="time t, in units of 1/λ₁", ylabel="numerical rank of P(t)", ylim=(0, None))
    left.legend(frameon=False)
    lines(right, np.arange(1, singular_values.shape[1] + 1), singular_values,
          [f"t = {t:g}" for t in shown], marker=".", markersize=4)
    right.set(xlabel="index", ylabel="singular value / largest", yscale="log", ylim=(1e-17, 3))
    right.set_title(str(labels[0]))
    right.legend(frameon=False, fontsize=9, loc="center")
    return figure


def leader_graphs(times, tokens, attention):
    """Tokens in the plane, joined to those that they attend to by lines as strong as P_ij."""
    columns = 3
    rows = -(-len(times) // columns)
    figure, axes = canvas(rows, columns, width=7.8, height=2.75 * rows + 0.2, sharex=True,
                          sharey=True, squeeze=False)
    for axis, time, cloud, weights in zip(axes.ravel(), times, tokens, attention, strict=True):
        _graph(axis, time, cloud, weights)
    for axis in axes[:, 0]:
        axis.set_ylabel("second coordinate")
    for axis in axes[-1]:
        axis.set_xlabel("first coordinate")
    return figure


def _graph(axis, time, cloud, weights):
    for i, row in enumerate(weights):
        for j in np.flatnonzero(row > 0.02):
            if j != i:
                axis.plot(*cloud[[i, j]].T, color=BLUE, linewidth=1.8 * row[j], alpha=0.8,
                          zorder=1)
    received = weights.sum(axis=0)
    axis.scatter(*cloud.T, s=14 + 14 * received, color=np.where(received > 1.5, VERMILION, BLACK),
                 marker="o", linewidth=0, zorder=3)
    axis.set_title(f"t = {time:g}")


def coordinates_high(times, means, deviations, spread, centres, values):
    """Coordinates that cluster (above) and that diverge (below): means and standard deviations.

    Parameters
    ----------
    times : array, shape (T,)
    means, deviations : arrays, shape (2, T, p)
        Over the tokens of each group, for the coordinates of positive eigenvalues.
    spread, centres : arrays, shape (T, q)
        Standard deviation and |mean| over all tokens, for those of negative eigenvalues.
    values : array, shape (2,)
        The most negative eigenvalue and the one nearest to 0 from below.
    """
    figure, axes = canvas(2, 2, width=7.8, height=6.4, sharex=True)
    _clustering(axes[0], times, means, deviations)
    for axis, curves, label in ((axes[1, 0], centres, "|mean| over tokens"),
                                (axes[1, 1], spread, "standard deviation")):
        axis.semilogy(times, np.maximum(curves, 1e-4), color=SKY, linewidth=0.7)
        axis.semilogy(times, curves.max(axis=1), color=BLACK, linewidth=1.6, label="largest")
        axis.set(xlabel="time t", ylabel=label, title="coordinates that diverge")
    for value, style in zip(values, ("--", ":"), strict=True):
        slope = spread[-1].max() if value == values.min() else spread[-1].min()
        axes[1, 1].semilogy(times[times > 5], slope * np.exp(-value * (times[times > 5] - times[-1])),
                            color=VERMILION, linestyle=style, label=f"exp({-value:.2f} t)")
    axes[1, 1].legend(frameon=False, fontsize=9)
    return figure


def _clustering(axes, times, means, deviations):
    for (colour, style), mean, deviation, sign in zip(LINES, means, deviations, "+−", strict=False):
        axes[0].plot(times, mean[:, -1], color=colour, linestyle=style, label=f"group {sign}")
        axes[0].fill_between(times, mean[:, -1] - deviation[:, -1], mean[:, -1] + deviation[:, -1],
                             color=colour, alpha=0.2, linewidth=0)
        axes[0].plot(times, mean[:, :-1:12], color=colour, linestyle=style, linewidth=0.6, alpha=0.7)
        axes[1].semilogy(times, np.maximum(deviation, 1e-9), color=colour, linestyle=style,
                         linewidth=0.5, alpha=0.6)
    reach = 1.6 * np.abs(means).max()
    axes[0].set(ylabel="mean over a group", title="coordinates that cluster", ylim=(-reach, reach))
    axes[1].set(ylabel="standard deviation in a group", title="coordinates that cluster")
    axes[0].legend(frameon=False, fontsize=9, loc="upper left", ncols=2)


def head_spectra(eigenvalues, good, layer):
    """Eigenvalues of every head of a layer in the complex plane.

    Parameters
    ----------
    eigenvalues : complex array, shape (heads, k)
        Largest modulus first.
    good : bool array, shape (heads,)
        Whether the head is a good triple.
    layer : int
    """
    rows = -(-len(eigenvalues) // 4)
    figure, axes = canvas(rows, 4, width=7.8, height=2.1 * rows + 0.4, sharex=True, sharey=True)
    reach = 1.1 * np.abs(eigenvalues).max()
    for number, (axis, found) in enumerate(zip(axes.ravel(), eigenvalues, strict=True)):
        axis.axhline(0, color="0.8", linewidth=0.7, zorder=0)
        axis.axvline(0, color="0.8", linewidth=0.7, zorder=0)
        axis.scatter(found.real, found.imag, s=12, color=BLUE, linewidth=0)
        axis.scatter(found[:1].real, found[:1].imag, s=52, marker="D" if good[number] else "o",
                     facecolor="none", edgecolor=VERMILION if good[number] else BLACK, linewidth=1.6)
        axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
        axis.set_title(f"head {number}" + (": good triple" if good[number] else ""), fontsize=10)
    figure.supxlabel("real part", fontsize=11)
    figure.supylabel("imaginary part", fontsize=11)
    return figure


KINDS = (("good triple", VERMILION, "D"), ("real, positive, score ≤ 0", ORANGE, "s"),
         ("real, negative", BLUE, "v"), ("complex pair", GREEN, "o"))


def head_kinds(leading, kinds):
    """What the leading eigenvalue of every head is, layer by layer.

    Parameters
    ----------
    leading : complex array, shape (layers, heads)
    kinds : int array, shape (layers, heads)
        Index into `KINDS`.
    """
    figure, axis = canvas(width=7.4, height=4.4)
    layers, numbers = np.indices(kinds.shape)
    for kind, (label, colour, marker) in enumerate(KINDS):
        here = kinds == kind
        axis.scatter(numbers[here], layers[here], s=30 + 110 * np.abs(leading[here]), marker=marker,
                     facecolor=colour if kind == 0 else "none", edgecolor=colour, linewidth=1.6)
        axis.scatter([], [], s=70, marker=marker, facecolor=colour if kind == 0 else "none",
                     edgecolor=colour, linewidth=1.6, label=f"{label} ({here.sum()})")
    axis.set(xlabel="head", ylabel="layer", xticks=range(kinds.shape[1]),
             yticks=range(kinds.shape[0]), ylim=(kinds.shape[0] - 0.4, -0.6))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
