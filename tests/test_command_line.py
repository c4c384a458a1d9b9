"""The command line as a reader uses it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import attn_clusters as ac
from attn_clusters.__main__ import main
from attn_clusters.experiments import core


def run(*words, **options):
    environment = os.environ | {"COLUMNS": "100"}
    return subprocess.run([sys.executable, "-W", "error", "-m", "attn_clusters", *words],
                          capture_output=True, text=True, env=environment, **options)


def test_list(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ac.figures())


def test_figure_in_a_process_of_its_own(tmp_path):
    done = run("figure", "polytope-2d", "--out", str(tmp_path / "new" / "folder"))
    assert done.returncode == 0, done.stderr
    for kind in ("png", "svg", "npz", "json"):
        assert (tmp_path / "new" / "folder" / f"polytope-2d.{kind}").stat().st_size > 500
    assert "vertices of K*" in done.stdout


def test_figures_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(core, "figures", lambda: ["polytope-2d", "polytope-3d"])
    monkeypatch.setattr("attn_clusters.experiments.figures", core.figures)
    assert main(["figures", "--out", str(tmp_path), "--jobs", "2"]) == 0
    assert len(list(tmp_path.glob("*.png"))) == 2
    captured = capsys.readouterr()
    assert "2 figures in" in captured.out and "2/2" in captured.err
    told = json.loads((tmp_path / "polytope-3d.json").read_text())
    assert told["name"] == "polytope-3d" and told["differences"] == []


def test_check_agrees_and_fails_when_a_number_is_changed(tmp_path, monkeypatch, capsys):
    assert main(["check", "polytope-2d"]) == 0
    stored = json.loads((core.REFERENCE / "polytope-2d.json").read_text())
    (tmp_path / "polytope-2d.json").write_text(json.dumps(stored | {"vertices": 99}))
    monkeypatch.setattr(core, "REFERENCE", tmp_path)
    capsys.readouterr()
    assert main(["check", "polytope-2d"]) == 1
    assert "vertices" in capsys.readouterr().out
    assert main(["check", "polytope-2d", "--update"]) == 0
    assert main(["check", "polytope-2d"]) == 0
    assert json.loads((tmp_path / "polytope-2d.json").read_text()) == stored


def test_classify_names_the_statements_that_apply(tmp_path):
    path = tmp_path / "own.npz"
    np.savez(path, Q=np.eye(2), K=np.diag([2.0, 0.25]), V=np.eye(2))
    done = run("classify", str(path))
    assert done.returncode == 0, done.stderr
    assert "polytope   applies" in done.stdout.replace("polytope         ", "polytope   ") or (
        "polytope" in done.stdout and "0.25" in done.stdout)
    assert "polytope [proved] predicts" in done.stdout


@pytest.mark.parametrize("words, message", [
    (["figure", "politope-2d"], "polytope-2d"), (["check", "nothing-at-all"], "no figure is called"),
    (["classify", "absent.npz"], "not a readable"), ])
def test_bad_arguments_exit_2_with_a_reason(words, message, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err


def test_classify_says_which_array_is_missing(tmp_path, capsys):
    path = tmp_path / "own.npz"
    np.savez(path, Q=np.eye(2), K=np.eye(2))
    assert main(["classify", str(path)]) == 2
    assert "no array V" in capsys.readouterr().err
    path.write_text("not an archive")
    assert main(["classify", str(path)]) == 2
    np.savez(path, Q=np.eye(2), K=np.eye(3), V=np.eye(2))
    assert main(["classify", str(path)]) == 2
    assert "K: expected" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["dance"], ["figures", "--jobs", "0"], ["figures", "--jobs", "x"]])
def test_usage_errors(words):
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2


def test_statements(capsys):
    assert main(["statements"]) == 0
    printed = capsys.readouterr().out
    assert all(key in printed for key in ac.statements)


def test_version():
    assert run("--version").stdout.strip() == ac.__version__
