"""The book's own Sphinx extensions, on a notebook of two cells."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

EXTENSIONS = Path(__file__).resolve().parent.parent / "book" / "_ext"
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAA"
         "AABJRU5ErkJggg==")


@pytest.fixture
def build(tmp_path):
    """Build a notebook that shows one image, with this metadata, and one widget."""
    def run(metadata):
        cell = nbformat.v4.new_code_cell("show()", execution_count=1)
        view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "SLIDER"}
        cell.outputs = [
            nbformat.v4.new_output("display_data", {"image/png": PIXEL}, metadata=metadata),
            nbformat.v4.new_output("display_data", view)]
        title = nbformat.v4.new_markdown_cell("# Title")
        language = {"language_info": {"name": "python", "pygments_lexer": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=[title, cell], metadata=language),
                       tmp_path / "index.ipynb")
        (tmp_path / "conf.py").write_text(
            f"import sys\nsys.path.append({str(EXTENSIONS)!r})\n"
            "extensions = ['myst_nb', 'outputs']\nnb_execution_mode = 'off'\n")
        done = subprocess.run([sys.executable, "-m", "sphinx", "-W", "-q", ".", "out"],
                              cwd=tmp_path, capture_output=True, text=True)
        page = tmp_path / "out" / "index.html"
        return done, page.read_text() if page.exists() else ""
    return run


def test_alternative_text_reaches_the_page_and_widgets_do_not(build):
    done, page = build({"image/png": {"alt": "Forty tokens", "width": 300}})
    assert done.returncode == 0, done.stderr
    assert 'alt="Forty tokens"' in page
    assert "SLIDER" not in page and "widget" not in page


def test_an_image_without_alternative_text_fails_the_build(build):
    done, _ = build({})
    assert done.returncode != 0
    assert "image without alternative text" in done.stderr
