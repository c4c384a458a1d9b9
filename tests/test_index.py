"""The index: statement -> hypotheses -> function -> figure -> test, with nothing missing or dangling."""

import ast
import importlib
from pathlib import Path

import pytest

import attn_clusters as ac
from attn_clusters.experiments import experiments
from attn_clusters.index import statement_rows

ROOT = Path(__file__).parents[1]


def resolve(dotted):
    """The object behind a dotted name, through the longest importable module."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for name in parts[length:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"{dotted} cannot be imported")


@pytest.mark.parametrize("key", ac.statements)
def test_row_is_complete(key):
    item = ac.statements[key]
    assert item.key == key and item.title and item.assumes and item.concludes and item.source
    assert item.functions and item.tests
    assert [found for found in experiments().values() if found.statement == key]


@pytest.mark.parametrize("key", ac.statements)
def test_functions_exist_and_are_documented(key):
    for dotted in ac.statements[key].functions:
        assert resolve(dotted).__doc__


@pytest.mark.parametrize("key", ac.statements)
def test_tests_exist(key):
    for node in ac.statements[key].tests:
        path, _, name = node.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {item.name for item in ast.walk(tree) if isinstance(item, ast.FunctionDef)}, node


def test_every_figure_belongs_to_a_statement_and_a_page():
    for name, item in experiments().items():
        assert item.statement in ac.statements and name.startswith(item.statement)
        page = ROOT / "book" / f"{item.chapter}.ipynb"
        assert page.exists(), f"no page {page.name} for {name}"
        assert name in page.read_text(encoding="utf-8")


def test_indexes_print_and_link():
    header, rows = statement_rows()
    assert len(rows) == len(ac.statements) and len(header) == len(rows[0])
    assert all(key in repr(ac.statement_index()) for key in ac.statements)
    for name, item in experiments().items():
        assert f'href="{item.chapter}.html#{name}"' in ac.figure_index()._repr_html_()
