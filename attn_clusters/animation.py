"""Figures that move: frames drawn by matplotlib, written as one animated PNG.

An animated PNG is a PNG whose first frame every program shows, while browsers and notebooks play
the rest: nothing else is needed to see it move, and where nothing can move a picture stays.
"""

from io import BytesIO
from itertools import pairwise

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.spatial import cKDTree

COLOURS = 64


def animated_png(figures, milliseconds=100, rest=2000, dpi=100):
    """Write figures as the frames of an animated PNG that repeats for ever.

    Parameters
    ----------
    figures : iterable of matplotlib.figure.Figure
        One per frame; it may be the same object, changed between one frame and the next.
    milliseconds : int
        How long each frame stays.
    rest : int
        How long the last one stays, before everything starts again.
    dpi : int
        Pixels per inch of the figures' size.

    Returns
    -------
    bytes

    Raises
    ------
    ValueError
        If there are fewer than two frames, or they differ in size.
    """
    frames = [_pixels(figure, dpi) for figure in figures]
    if len(frames) < 2 or len({frame.shape for frame in frames}) > 1:
        sizes = sorted({frame.shape for frame in frames})
        raise ValueError(f"figures: expected at least two frames of one size, got {len(frames)} "
                         f"of sizes {sizes}")
    palette = _palette(frames)  # one for all frames, or colours would flicker
    first, *others = _changes([_indexed(frame, palette) for frame in frames], palette)
    buffer = BytesIO()
    first.save(buffer, format="png", save_all=True, append_images=others, loop=0, blend=1,
               transparency=len(palette), duration=[milliseconds] * len(others) + [rest])
    return buffer.getvalue()


def _pixels(figure, dpi):
    """The figure as whole numbers that pack red, green and blue, shape (height, width)."""
    figure.set_dpi(dpi)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    figure.set_layout_engine("none")  # laid out once: the axes of later frames must not jump
    return np.array(canvas.buffer_rgba())[..., :3] @ (1 << 16, 1 << 8, 1)


def _palette(frames):
    """The commonest colours of the first and the last frame: flat areas stay as they are."""
    colours, counts = np.unique(np.stack([frames[0], frames[-1]]), return_counts=True)
    return colours[np.argsort(-counts, kind="stable")[:COLOURS]]


def _indexed(frame, palette):
    """Index of the nearest colour of the palette, for every pixel."""
    colours, inverse = np.unique(frame, return_inverse=True)
    nearest = cKDTree(_channels(palette)).query(_channels(colours))[1]
    return nearest[inverse].reshape(frame.shape)


def _channels(colours):
    """Red, green and blue of colours packed into whole numbers, shape (..., 3)."""
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=-1)


def _changes(indices, palette):
    """The first frame, and of each other one only the pixels that differ from the one before."""
    from PIL import Image

    unchanged = len(palette)
    masked = [np.where(before == after, unchanged, after)
              for before, after in pairwise(indices)]
    for index in [indices[0], *masked]:
        image = Image.fromarray(index.astype(np.uint8)).convert("P")
        image.putpalette([*_channels(palette).ravel().tolist(), 255, 255, 255])
        yield image
