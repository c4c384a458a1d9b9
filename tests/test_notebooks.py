"""The stored notebooks: executed, small, only calls into the library, and really compared."""

import ast
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
LONGEST_FUNCTION = 6  # statements: enough to hand a slider's value to the library

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def code_cells(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def algorithms(source):
    """What in a cell belongs into the library: solvers, loops over time, long functions."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in getattr(node, "names", []) if isinstance(alias, ast.alias)]
        modules = [*names, getattr(node, "module", None) or ""]
        if any(name.split(".")[0] == "scipy" for name in modules):
            yield "a scipy import"
        if isinstance(node, ast.While):
            yield "a while loop"
        if isinstance(node, ast.For) and len(node.body) > 2:
            yield "a long for loop"
        if isinstance(node, ast.FunctionDef) and len(node.body) > LONGEST_FUNCTION:
            yield f"the function {node.name}"


def test_the_contents_and_the_folder_agree():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    chapters = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    listed = {ROOT / name for name in [toc["root"], *chapters]}
    stored = {path.with_suffix("") for path in (ROOT / "book").iterdir()
              if path.suffix in (".ipynb", ".md")}
    assert listed == stored


@each_notebook
def test_notebook_is_executed_and_small(path):
    for cell in code_cells(path):
        assert cell.execution_count is not None, f"never executed: {cell.source}"
        assert all(output.output_type != "error" for output in cell.outputs), cell.source
    assert path.stat().st_size <= 1.5e6


@each_notebook
def test_notebook_only_calls_the_library(path):
    for cell in code_cells(path):
        assert list(algorithms(cell.source)) == [], cell.source


@each_notebook
def test_notebook_names_no_place_on_one_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not any(place in text for place in ("/home/", "/Users/", "/root/", "/tmp/", "C:\\"))


def test_algorithms_are_noticed():
    assert list(algorithms("from scipy.integrate import solve_ivp")) == ["a scipy import"]
    assert list(algorithms("while t < 1:\n    t += dt")) == ["a while loop"]
    assert list(algorithms("import attn_clusters as ac\nac.figure('polytope-2d')")) == []


@pytest.mark.parametrize(("printed", "passes"), [("0.3333\n", True), ("0.3334\n", False)])
def test_nbval_notices_a_changed_digit(printed, passes, tmp_path):
    cell = nbformat.v4.new_code_cell("print(f'{1 / 3:.4f}')", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "small.ipynb")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-p", "no:cacheprovider",
         "--nbval-sanitize-with", ROOT / "tests" / "nbval_sanitize.cfg", "small.ipynb"],
        cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (0 if passes else 1), done.stdout + done.stderr
