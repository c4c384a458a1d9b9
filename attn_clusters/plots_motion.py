"""Drawing of figures that move: frame by frame, and the still form for paper."""

import numpy as np

from .geometry import Hull
from .plots import BLACK, VERMILION, canvas, hull_outline


def clustering_still(times, tokens, vertices):
    """First, middle and last moment of `clustering_frames`, side by side.

    Parameters
    ----------
    times : array, shape (T,)
    tokens : array, shape (T, n, 2)
        Rescaled tokens in the plane.
    vertices : array, shape (v, 2)
        Vertices of the limit polytope.
    """
    chosen = [0, int(np.searchsorted(times, times[-1] / 4)), len(times) - 1]
    figure, axes = canvas(1, 3, width=7.8, height=3.2, sharex=True, sharey=True)
    for axis, k in zip(axes, chosen, strict=True):
        _scene(axis, times, tokens, vertices, k)
    axes[0].set_ylabel("second coordinate")
    return figure


def clustering_frames(times, tokens, vertices):
    """Yield the same figure once per time, with tokens, hull and clock moved on."""
    figure, axis = canvas(1, 1, width=5.2, height=5.0)
    hull, dots = _scene(axis, times, tokens, vertices, 0)
    axis.set_ylabel("second coordinate")
    for time, cloud in zip(times, tokens, strict=True):
        hull.set_xy(cloud[Hull(cloud, flat=1e-6).vertices])
        dots.set_offsets(cloud)
        axis.set_title(f"t = {time:.1f}")
        yield figure


def _scene(axis, times, tokens, vertices, k):
    reach = 1.08 * np.abs(tokens[0]).max()
    axis.plot(*tokens.transpose(2, 0, 1), color="0.8", linewidth=0.7, zorder=1)
    hull_outline(axis, tokens[0], facecolor="none", edgecolor="0.6", alpha=1, linewidth=1)
    hull_outline(axis, tokens[k])
    axis.scatter(*vertices.T, s=70, marker="s", facecolor="none", edgecolor=VERMILION,
                 linewidth=1.6, zorder=4)
    dots = axis.scatter(*tokens[k].T, s=16, color=BLACK, zorder=3, linewidth=0)
    axis.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal",
             xlabel="first coordinate", title=f"t = {times[k]:.1f}")
    return axis.patches[-1], dots
