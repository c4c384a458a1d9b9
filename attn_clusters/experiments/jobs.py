"""Many figures in turn or side by side, each in a fresh process so that its memory is its own."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, as_completed

from .core import figure


def save(name, out):
    """Compute a figure and write its files; return the seconds that the computation took."""
    result = figure(name)
    result.save(out)
    return result.seconds


def differences(name):
    """Recompute a figure and return what disagrees with its reference numbers."""
    return figure(name).differences()


def update(name):
    """Recompute a figure and store its numbers as the references."""
    figure(name).store_references()
    return []


def each(work, names, jobs, *arguments):
    """Yield (name, result of work) for each name: in order with one job, else as they are completed."""
    if jobs == 1:
        for name in names:
            yield name, work(name, *arguments)
        return
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=fresh, max_tasks_per_child=1) as pool:
        waiting = {pool.submit(work, name, *arguments): name for name in names}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
