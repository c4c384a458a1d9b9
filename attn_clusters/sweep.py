"""Parameter sweeps: one function at many points, on one core, many cores or many machines."""

import base64
import json
import os
import pickle
from collections.abc import Mapping
from concurrent.futures import as_completed
from contextlib import closing
from functools import partial
from itertools import product
from pathlib import Path

from tqdm.auto import tqdm


class SweepError(RuntimeError):
    """Some points of a sweep failed; all others were finished first.

    Attributes
    ----------
    failures : list of (dict, Exception)
        The parameters of each failing point, and what it raised.
    results : list
        Results of the whole grid in its order, None at the failing points.
    """

    def __init__(self, failures, results):
        super().__init__(failures, results)
        self.failures, self.results = failures, results

    def __str__(self):
        lines = [f"{', '.join(f'{name}={value!r}' for name, value in point.items())}: "
                 f"{type(error).__name__}: {error}" for point, error in self.failures]
        return "\n".join([f"{len(lines)} of {len(self.results)} points failed", *lines])


def sweep(function, grid, executor=None, progress=True, file=None):
    """Call a function at every point of a grid of parameters.

    Parameters
    ----------
    function : callable
        Called with keyword arguments. Other processes must be able to import it.
    grid : dict of lists, or list of dicts
        Every combination of the lists, the last one varying fastest; or the points themselves.
    executor : concurrent.futures.Executor, optional
        Where to run: a `ProcessPoolExecutor`, or ``Client(...).get_executor()`` of a Dask
        cluster. None runs the points one after the other in this process.
    progress : bool
        Show a progress bar.
    file : path, optional
        Each result is appended here when it arrives, and a sweep that finds the file computes only
        the points that are missing in it. It holds pickles: open none from a source you distrust.

    Returns
    -------
    list
        The results, in the order of the grid.

    Raises
    ------
    ValueError
        If the grid is not one, or the file belongs to another function or is damaged.
    SweepError
        After all other points are finished, if some failed; it names their parameters.
    """
    grid = points(grid)
    keys = [] if file is None else _keys(function, grid)
    results = {} if file is None else _load(Path(file), keys)
    waiting = [place for place in range(len(grid)) if place not in results]
    failures = {}
    with (closing(_outcomes(function, grid, waiting, executor)) as outcomes,
          tqdm(total=len(grid), initial=len(results), disable=not progress) as bar):
        for place, result in outcomes:
            try:
                results[place] = result()
            except Exception as error:
                failures[place] = error
            else:
                if file is not None:
                    _append(file, keys[place], results[place])
            bar.update()
    ordered = [results.get(place) for place in range(len(grid))]
    if failures:
        raise SweepError([(grid[place], failures[place]) for place in sorted(failures)], ordered)
    return ordered


def points(grid):
    """The points of a grid, a list of dicts: all combinations if it is a dict of lists."""
    if isinstance(grid, Mapping):
        return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    grid = list(grid)
    for point in grid:
        if not isinstance(point, Mapping):
            raise ValueError(f"grid: expected a dict of lists or a list of dicts, got {point!r}")
    return grid


def _outcomes(function, grid, waiting, executor):
    """Yield (place in the grid, a call that gives the result or raises) as points are finished."""
    if executor is None:
        for place in waiting:
            yield place, partial(function, **grid[place])
        return
    # A partial keeps the parameters apart from keywords of the executor's own `submit`.
    futures = {executor.submit(partial(function, **grid[place])): place for place in waiting}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result
    finally:
        for future in futures:
            future.cancel()


def _keys(function, grid):
    """What each result is known by in the file: [function, parameters], as JSON text."""
    name = f"{function.__module__}.{getattr(function, '__qualname__', type(function).__name__)}"
    keys = [json.dumps([name, point], sort_keys=True, default=_plain) for point in grid]
    if len(set(keys)) < len(keys):
        raise ValueError("grid: with a file every point must occur once, and some are repeated")
    return keys


def _plain(value):
    if hasattr(value, "tolist"):  # an array, or one of numpy's numbers
        return value.tolist()
    raise ValueError("grid: a file tells points apart by numbers, text, lists, dicts or arrays, "
                     f"got {value!r}")


def _load(path, keys):
    """Results in the file by place in the grid; a last line cut short is removed from it."""
    whole = path.read_bytes() if path.exists() else b""
    kept = whole[:whole.rfind(b"\n") + 1]
    results, places = {}, {key: place for place, key in enumerate(keys)}
    for number, line in enumerate(kept.splitlines(), 1):
        try:
            (name, point), packed = json.loads(line)
            result = pickle.loads(base64.b64decode(packed))
        except Exception as error:
            raise ValueError(f"file: line {number} of {path} is damaged ({error})") from error
        if keys and not keys[0].startswith(f"[{json.dumps(name)}, "):
            raise ValueError(f"file: {path} holds results of another function, {name}")
        results[places.get(json.dumps([name, point], sort_keys=True))] = result
    if len(kept) < len(whole):
        os.truncate(path, len(kept))
    results.pop(None, None)
    return results


def _append(file, key, result):
    """Add one line, and wait until it is on the disk: it counts once its end of line is there."""
    packed = base64.b64encode(pickle.dumps(result)).decode()
    with open(file, "ab", buffering=0) as stream:
        stream.write(f'[{key}, "{packed}"]\n'.encode())
        os.fsync(stream.fileno())
