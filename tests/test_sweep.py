"""Sweeps: the same results wherever they run, nothing lost or computed twice when one stops."""

import json
import os
import pickle
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import attn_clusters as ac
from attn_clusters.sweep import SweepError, points

GRID = {"a": [1.0, 2.0, 3.0], "b": [0.5, 0.25]}
EXPECTED = [a * b for a in GRID["a"] for b in GRID["b"]]


def multiply(a, b):
    return a * b


def logged(a, folder):
    """Leaves a mark each time it runs."""
    with open(Path(folder) / f"{a}", "a") as stream:
        stream.write("ran\n")
    return np.full(3, a)


def slow(a, folder):
    """Leaves its process id, and takes long enough for the process to be ended meanwhile."""
    (Path(folder) / f"{a}-{os.getpid()}").touch()
    time.sleep(0.2)
    return a, os.getpid()


def refuses_two(a):
    if a == 2:
        raise ValueError("two is too many")
    return a


def runs(folder):
    return {int(path.name): path.read_text().count("ran") for path in Path(folder).iterdir()}


def test_grid_is_a_product_or_a_list():
    assert points({"a": [1, 2], "b": "xy"}) == [
        {"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    assert points([{"a": 1}, {"a": 3}]) == [{"a": 1}, {"a": 3}]
    with pytest.raises(ValueError, match="grid: expected a dict of lists or a list of dicts"):
        points([1, 2])


def test_every_executor_gives_the_results_in_the_order_of_the_grid():
    assert ac.sweep(multiply, GRID, progress=False) == EXPECTED
    with ThreadPoolExecutor(2) as threads:
        assert ac.sweep(multiply, GRID, threads, progress=False) == EXPECTED
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert ac.sweep(multiply, GRID, processes, progress=False) == EXPECTED


@pytest.mark.parametrize("pool", [None, ThreadPoolExecutor])
def test_failing_point_is_reported_while_the_others_finish(pool, tmp_path):
    executor = pool and pool(2)
    with pytest.raises(SweepError) as caught:
        ac.sweep(refuses_two, {"a": [1, 2, 3]}, executor, progress=False, file=tmp_path / "f")
    assert "1 of 3 points failed" in str(caught.value)
    assert "a=2: ValueError: two is too many" in str(caught.value)
    assert caught.value.results == [1, None, 3]
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert len((tmp_path / "f").read_text().splitlines()) == 2


def test_progress_is_shown_on_request(capsys):
    ac.sweep(multiply, GRID, progress=False)
    assert capsys.readouterr().err == ""
    ac.sweep(multiply, GRID)
    assert "6/6" in capsys.readouterr().err


def test_interrupted_sweep_resumes_without_repeating(tmp_path):
    folder, file = tmp_path / "runs", tmp_path / "results"
    folder.mkdir()
    grid = [{"a": a, "folder": str(folder)} for a in range(5)]

    def stopped(a, folder):
        if a == 3:
            raise KeyboardInterrupt
        return logged(a, folder)

    stopped.__module__, stopped.__qualname__ = logged.__module__, logged.__qualname__
    with pytest.raises(KeyboardInterrupt):
        ac.sweep(stopped, grid, progress=False, file=file)
    assert runs(folder) == {0: 1, 1: 1, 2: 1}
    results = ac.sweep(logged, grid, progress=False, file=file)
    np.testing.assert_array_equal(results, [np.full(3, a) for a in range(5)])
    assert runs(folder) == {a: 1 for a in range(5)}
    longer = [{"a": 9, "folder": str(folder)}, *grid]
    np.testing.assert_array_equal(ac.sweep(logged, longer, progress=False, file=file)[0], 9)
    assert runs(folder) == {a: 1 for a in (0, 1, 2, 3, 4, 9)}


def test_a_result_cut_short_is_computed_again_and_the_file_heals(tmp_path):
    folder, file = tmp_path / "runs", tmp_path / "results"
    folder.mkdir()
    grid = {"a": [0, 1], "folder": [str(folder)]}
    ac.sweep(logged, grid, progress=False, file=file)
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    ac.sweep(logged, grid, progress=False, file=file)
    assert runs(folder) == {0: 1, 1: 2}
    assert file.read_bytes() == whole


def test_file_refuses_what_does_not_belong_to_it(tmp_path):
    file = tmp_path / "results"
    ac.sweep(multiply, GRID, progress=False, file=file)
    with pytest.raises(ValueError, match=r"holds results of another function, .*multiply"):
        ac.sweep(refuses_two, {"a": [1]}, progress=False, file=file)
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], lines[1][:20], *lines[2:], ""]))
    with pytest.raises(ValueError, match=r"file: line 2 of .* is damaged"):
        ac.sweep(multiply, GRID, progress=False, file=file)
    with pytest.raises(ValueError, match="grid: a file tells points apart by numbers"):
        ac.sweep(multiply, {"a": [object()], "b": [1]}, progress=False, file=tmp_path / "other")
    with pytest.raises(ValueError, match="every point must occur once"):
        ac.sweep(multiply, [{"a": 1, "b": 1}] * 2, progress=False, file=tmp_path / "other")


def test_arrays_are_parameters_too_and_the_file_can_be_read_by_eye(tmp_path):
    grid = [{"a": np.array([1.0, 2.0]), "b": np.float64(3)}]
    for _ in range(2):
        [result] = ac.sweep(multiply, grid, progress=False, file=tmp_path / "f")
        np.testing.assert_array_equal(result, [3.0, 6.0])
    [line] = (tmp_path / "f").read_text().splitlines()
    assert json.loads(line)[0][1] == {"a": [1.0, 2.0], "b": 3.0}


@pytest.fixture
def dask_client():
    """A client of two worker processes on this machine that anyone else cannot reach."""
    import dask
    from distributed import Client, LocalCluster

    quiet = {"distributed.worker.daemon": True, "distributed.comm.timeouts.connect": "10s"}
    with (dask.config.set(quiet),
          LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
                       dashboard_address=None, silence_logs="CRITICAL") as cluster,
          Client(cluster) as client):
        yield client


def test_dask_cluster_that_loses_a_worker_mid_sweep_loses_nothing(dask_client, tmp_path):
    folder, file = tmp_path / "runs", tmp_path / "results"
    folder.mkdir()
    grid = {"a": list(range(12)), "folder": [str(folder)]}
    with ThreadPoolExecutor(1) as aside:
        running = aside.submit(ac.sweep, slow, grid, dask_client.get_executor(), False, file)
        while len(seen := [path.name for path in folder.iterdir()]) < 4:
            time.sleep(0.02)
        ended = int(max(seen, key=lambda name: int(name.split("-")[0])).split("-")[1])
        os.kill(ended, signal.SIGKILL)
        results = running.result(timeout=60)
    assert [a for a, _ in results] == grid["a"]
    assert any(process != ended for _, process in results)
    assert len(file.read_text().splitlines()) == 12
    before = set(folder.iterdir())
    assert ac.sweep(slow, grid, progress=False, file=file) == results
    assert set(folder.iterdir()) == before
