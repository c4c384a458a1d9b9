"""Drawings of the chapter on the line: attention matrices, tokens on the line, undecided rows."""

import numpy as np
from matplotlib.colors import PowerNorm

from .plots import BLACK, BLUE, SKY, VERMILION, canvas, label_outer

# The square root makes small weights visible.
PALE = dict(cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")


def matrices(panels, titles, tokens):
    """Square matrices with entries in [0, 1], rows and columns in the order of sorted tokens.

    Parameters
    ----------
    panels : array, shape (m, n, n)
    titles : array of str, shape (m,)
    tokens : array, shape (n,)
        Sorted tokens, written along the axes at five places.
    """
    columns, rows = min(len(panels), 3), -(-len(panels) // 3)
    figure, axes = canvas(rows, columns, width=7.2, height=2.1 * rows + 0.4, squeeze=False,
                          sharex=True, sharey=True)
    places = np.linspace(0, len(tokens) - 1, 5).astype(int)
    labels = [f"{tokens[place]:.1f}" for place in places]
    for axis, panel, title in zip(axes.ravel(), panels, titles, strict=True):
        image = axis.imshow(panel, **PALE)
        axis.set(title=title, xticks=places, yticks=places)
        axis.set_xticklabels(labels, fontsize=8)
        axis.set_yticklabels(labels, fontsize=8)
    label_outer(axes, "attended token", "attending token")
    figure.colorbar(image, ax=axes, shrink=0.7, label="attention P (square-root scale)")
    return figure


def line_tokens(times, tokens, sides, distances):
    """Rescaled tokens on the line by what is known of them at t = 0, and rows of P nearing a limit.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n)
        z_i(t).
    sides : array of int, shape (n,)
        1, -1, or 0 if the tokens at t = 0 do not settle it.
    distances : array, shape (T, n)
        Of each row of P(t) to its limit.
    """
    figure, (left, right) = canvas(1, 2, width=7.2, height=3.9)
    positive = np.where(distances > 1e-17, distances, np.nan)
    for side, colour, style, label in ((1, BLUE, "-", "up, proved at t = 0"),
                                       (-1, VERMILION, "--", "down, proved at t = 0"),
                                       (0, BLACK, ":", "open at t = 0")):
        chosen = sides == side
        left.plot([], [], color=colour, linestyle=style, label=label)
        left.plot(times, tokens[:, chosen], color=colour, linestyle=style, linewidth=1,
                  zorder=3 if side == 0 else 2)
        right.semilogy(times, positive[:, chosen], color=colour, linestyle=style, linewidth=1,
                       zorder=3 if side == 0 else 2)
    left.set(xlabel="time t", ylabel="rescaled token z")
    right.set(xlabel="time t", ylabel="row's deviation from its limit", ylim=(1e-14, 2))
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def exceptional_row(tokens, kept, free, times, paths):
    """An attention matrix with one row that is not Boolean, and what rounding makes of it.

    Parameters
    ----------
    tokens : array, shape (n,)
    kept, free : arrays, shape (n, n)
        P at the end, with the symmetry kept and in plain float64.
    times : array, shape (T,)
    paths : array, shape (2, T)
        |x| of the middle token in plain float64, of a neighbour for comparison.
    """
    figure, axes = canvas(1, 3, width=7.2, height=3.3)
    for axis, panel, title in zip(axes, (kept, free), ("symmetry kept", "plain float64"),
                                  strict=False):
        axis.imshow(panel, **PALE)
        middle = len(tokens) // 2
        axis.set(title=title, xticks=[0, middle, len(tokens) - 1],
                 yticks=[0, middle, len(tokens) - 1], xlabel="attended token")
        axis.set_xticklabels([f"{tokens[k]:.1f}" for k in axis.get_xticks()], fontsize=9)
        axis.set_yticklabels([f"{tokens[k]:.1f}" for k in axis.get_yticks()], fontsize=9)
    axes[0].set_ylabel("attending token")
    shown = np.where(paths > 0, paths, np.nan)
    axes[2].semilogy(times, shown[0], color=BLACK, label="middle token")
    axes[2].semilogy(times, shown[1], color=SKY, linestyle="--", label="its neighbour")
    axes[2].set(xlabel="time t", title="|x|, plain float64")
    axes[2].legend(frameon=False, fontsize=9)
    return figure


def undecided_share(times, share, low, high):
    """Share of draws in which some row is still open at time t, with its confidence band.

    Parameters
    ----------
    times : array, shape (T,)
    share, low, high : arrays, shape (T,)
        Estimate and 95 % interval; shares of 0 are shown by the interval alone.
    """
    figure, axis = canvas(width=6.5, height=3.8)
    axis.fill_between(times, np.maximum(low, 1e-6), high, color=SKY, alpha=0.5, linewidth=0,
                      label="95 % interval (Clopper-Pearson)")
    some = share > 0
    axis.semilogy(times[some], share[some], color=BLUE, marker="o", markersize=4,
                  label="share of draws with an open row")
    axis.set(xlabel="time t", ylabel="share of draws", ylim=(1e-5, 2))
    axis.legend(frameon=False)
    return figure
