"""Execute notebooks from scratch, two at a time, and note what each needs.

Each notebook runs in a process of its own: python book/measure.py NOTEBOOK EXECUTED prints seconds
and megabytes, and stores the executed notebook.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty

MEGABYTES = 1000  # what Binder grants a notebook, less a margin of 24 MB
PROCESSES = 2


def wakeful(client):
    """Let a notebook client look for replies every second.

    Where a cell makes widgets, nbclient can miss that the reply has come and sleep until the cell's
    time is up (jupyter/nbclient, issue 312).
    """
    start = client.async_start_new_kernel_client

    async def started():
        kernel = await start()
        channel = kernel.shell_channel
        kernel.shell_channel.get_msg = partial(in_short_waits, channel.get_msg)
        return kernel

    client.async_start_new_kernel_client = started
    return client


async def in_short_waits(get_message, timeout=None):
    """The next message, or queue.Empty after `timeout` seconds (None: never)."""
    end = time.monotonic() + (float("inf") if timeout is None else timeout)
    while True:
        try:
            return await get_message(timeout=max(0.0, min(1.0, end - time.monotonic())))
        except Empty:
            if time.monotonic() >= end:
                raise


def client(path, timeout):
    """What executes the notebook at `path`, in its folder: ``execute()`` returns the notebook."""
    import nbformat
    from nbclient import NotebookClient

    resources = {"metadata": {"path": str(Path(path).resolve().parent)}}
    # The times of cells would be part of what the cache of notebooks is matched by.
    return wakeful(NotebookClient(nbformat.read(path, as_version=4), timeout=timeout,
                                  kernel_name="python3", resources=resources, record_timing=False))


def run(path, executed):
    """Execute one notebook in this process's child; store it, print seconds and megabytes."""
    import nbformat

    notebook_client = client(path, timeout=240)
    start = time.monotonic()
    notebook = notebook_client.execute()
    seconds = time.monotonic() - start
    nbformat.write(notebook, executed)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(seconds, peak / (2**20 if platform.system() == "Darwin" else 2**10))


def measure(path, executed=os.devnull):
    """Seconds and megabytes of one notebook, in a process of its own; its outputs to `executed`."""
    done = subprocess.run([sys.executable, __file__, path, executed], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{path} failed:\n{done.stderr}")
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def measure_all(paths, folder):
    """{path: (seconds, megabytes)} of several notebooks, executed into a folder."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        executed = [folder / path.name for path in paths]
        return dict(zip(paths, pool.map(measure, paths, executed), strict=True))


def table(needed):
    """What {notebook: (seconds, megabytes)} says, as a table for the page on run times."""
    rows = [f"| [{Path(name).stem}]({name}) | {seconds:.1f} | {megabytes:.0f} |"
            for name, (seconds, megabytes) in sorted(needed.items())]
    total = sum(seconds for seconds, _ in needed.values())
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return "\n".join([f"Measured on {machine}; {total:.0f} s in all, {PROCESSES} notebooks at a time.",
                      "", "| page | seconds | peak memory, MB |", "|---|---:|---:|", *rows, ""])


if __name__ == "__main__":
    run(*sys.argv[1:])
