"""The book fits Binder, and its page of run times and its stored measurements are complete."""

import asyncio
import importlib.util
import json
import os
from pathlib import Path
from queue import Empty

import pytest

from attn_clusters import performance

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))

specification = importlib.util.spec_from_file_location("measure", ROOT / "book" / "measure.py")
book = importlib.util.module_from_spec(specification)
specification.loader.exec_module(book)

def test_notebooks_need_less_memory_than_binder_grants():
    """What the last build of the book measured while it executed them."""
    needed = ROOT / "_build" / "runtime.json"
    if not needed.exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("the site is not built: make book")
    measured = json.loads(needed.read_text())
    assert {path.name for path in NOTEBOOKS} <= set(measured)
    for path in NOTEBOOKS:
        # A kernel with numpy takes more than 20 MB: less would mean that nothing was measured.
        assert 20 < measured[path.name][1] < book.MEGABYTES, path.name


def test_memory_is_really_the_kernels(tmp_path):
    import nbformat

    cell = nbformat.v4.new_code_cell("import numpy as np; _ = np.ones(40_000_000)")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "large.ipynb")
    assert book.measure(tmp_path / "large.ipynb")[1] > 320


def test_the_page_of_run_times_names_every_notebook():
    needed = {"polytope.ipynb": (12.3, 456.7), "tokens.ipynb": (4.0, 150.0)}
    text = book.table(needed)
    assert "| [polytope](polytope.ipynb) | 12.3 | 457 |" in text and "16 s in all" in text


def test_table_names_every_measurement():
    results, text = performance.stored(), repr(performance.Table())
    for found in results["single_thread"]:
        assert f"n = {found['n']}, d = {found['d']}" in text
    for path in results["many_tokens"]:
        assert path["path"] in text
    assert performance.Machine().facts["processor"] in repr(performance.Machine())


def test_slope_of_a_square_law():
    n = [10, 20, 40, 80, 160]
    assert performance.fitted_slope(n, [3 * x**2 for x in n]) == pytest.approx(2, abs=1e-12)


def test_picture_shows_every_path():
    picture = performance.Picture()
    [axis] = picture.figure.axes
    assert [line.get_label() for line in axis.lines] == [path["path"] for path in picture.paths]


def test_a_reply_that_was_missed_is_found_within_a_second():
    """A channel as nbclient may leave it: it sleeps through a message, and has it when asked again."""
    waits = []

    async def get_message(timeout):
        waits.append(timeout)
        if len(waits) < 3:
            raise Empty
        return "reply"

    assert asyncio.run(book.in_short_waits(get_message, timeout=240)) == "reply"
    assert len(waits) == 3 and max(waits) <= 1.0


def test_waiting_for_a_reply_ends():
    async def nothing(timeout):
        await asyncio.sleep(timeout)
        raise Empty

    with pytest.raises(Empty):
        asyncio.run(book.in_short_waits(nothing, timeout=0.05))


def test_the_client_that_executes_notebooks_waits_so(tmp_path):
    """A cell with widgets runs, and its client's channel is the one that looks again."""
    import nbformat
    from nbclient import NotebookClient

    cell = nbformat.v4.new_code_cell("from ipywidgets import interact\ninteract(lambda x: x, x=1);")
    client = book.wakeful(NotebookClient(nbformat.v4.new_notebook(cells=[cell]), timeout=60,
                                         kernel_name="python3"))
    seen = []
    client.on_cell_executed = lambda **_: seen.append(client.kc.shell_channel.get_msg)
    client.execute()
    assert [get_message.func for get_message in seen] == [book.in_short_waits]
