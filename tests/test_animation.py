"""Figures that move: what a browser will play is what was drawn."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from attn_clusters.animation import _channels, _pixels, animated_png
from attn_clusters.experiments import experiments, figure
from attn_clusters.plots import BLUE, VERMILION, canvas

MOVING = [name for name, item in experiments().items() if item.animate]
MEGABYTE = 10**6


def moving_dot(count=5, width=2.0):
    """A dot that runs along the diagonal, over a line that stays."""
    drawing, axis = canvas(width=width, height=2.0)
    axis.plot([0, 1], [1, 0], color=VERMILION)
    dot, = axis.plot([0], [0], "o", color=BLUE)
    axis.set(xlim=(-0.2, 1.2), ylim=(-0.2, 1.2))
    for place in np.linspace(0, 1, count):
        dot.set_data([place], [place])
        yield drawing


def test_every_frame_decodes_to_what_was_drawn():
    written = Image.open(BytesIO(animated_png(moving_dot(), dpi=80)))
    assert (written.format, written.n_frames) == ("PNG", 5)
    for index, drawing in enumerate(moving_dot()):
        written.seek(index)
        drawn = _channels(_pixels(drawing, 80))
        error = np.abs(np.asarray(written.convert("RGB")).astype(int) - drawn)
        # 64 colours hold the flat ones exactly; only blends at edges, some 3 per cent of so small a
        # picture, go to the nearest of them, and never to another colour altogether.
        assert (error.max(axis=2) > 0).mean() < 0.05
        assert error.max() < 100


def test_it_repeats_and_rests_at_the_end():
    written = Image.open(BytesIO(animated_png(moving_dot(), milliseconds=40, rest=900)))
    durations = []
    for index in range(written.n_frames):
        written.seek(index)
        durations.append(written.info["duration"])
    assert durations == [40, 40, 40, 40, 900]
    assert written.info["loop"] == 0


def test_the_same_frames_give_the_same_bytes():
    assert animated_png(moving_dot()) == animated_png(moving_dot())


def test_bad_frames():
    with pytest.raises(ValueError, match=r"^figures: "):
        animated_png(moving_dot(1))
    with pytest.raises(ValueError, match=r"^figures: "):
        animated_png([*moving_dot(2), *moving_dot(2, width=3.0)])


@pytest.mark.parametrize("name", MOVING)
def test_moving_figures_are_light_and_saved(name, tmp_path):
    paths = figure(name).save(tmp_path)
    moving = tmp_path / f"{name}.apng"
    assert moving in paths
    assert moving.stat().st_size < MEGABYTE
    with Image.open(moving) as written:
        assert written.n_frames > 10


def test_what_a_notebook_is_given(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **options: shown.append(data))
    result = figure(MOVING[0])
    result._ipython_display_()
    (still, _), (moving, metadata) = (picture._repr_mimebundle_() for picture in shown[:2])
    assert not Image.open(BytesIO(still["image/png"])).is_animated
    assert Image.open(BytesIO(moving["image/png"])).is_animated
    assert metadata["image/png"]["moves"] and result.alt in metadata["image/png"]["alt"]
    # Notebook tests compare text: no bytes of a picture may be in it.
    assert len(shown) == 3 and "base64" not in shown[2]["text/html"]
