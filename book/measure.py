"""Execute notebooks from scratch; note run time and peak memory: python book/measure.py [--write].

Each notebook runs in a process of its own, two at a time. --write stores the page book/runtime.md.
"""

import os
import platform
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BOOK = Path(__file__).resolve().parent
PAGE = BOOK / "runtime.md"
MEGABYTES = 1000  # what Binder grants a notebook, less a margin of 24 MB
PROCESSES = 2
HEAD = """# Run times

Every page of this book that computes, executed from scratch, {processes} at a time, on {machine}: the
whole took {total:.0f} s. Memory is the peak of the notebook's kernel; a test holds it against
{limit} MB, since Binder grants a notebook 1 GB. Written by `make runtime`.

| page | seconds | peak memory, MB |
|---|---:|---:|
"""


def run(path, executed):
    """Execute one notebook in this process's child; store it, print seconds and megabytes."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(Path(path).resolve().parent)}}
    start = time.monotonic()
    # The times of cells would be part of what the cache of notebooks is matched by.
    NotebookClient(notebook, timeout=240, kernel_name="python3", resources=resources,
                   record_timing=False).execute()
    seconds = time.monotonic() - start
    nbformat.write(notebook, executed)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(seconds, peak / (2**20 if platform.system() == "Darwin" else 2**10))


def measure(path, executed=os.devnull):
    """Seconds and megabytes of one notebook, in a process of its own; its outputs to `executed`."""
    done = subprocess.run([sys.executable, __file__, "--run", path, executed], capture_output=True,
                          text=True)
    if done.returncode:
        raise RuntimeError(f"{path} failed:\n{done.stderr}")
    seconds, megabytes = done.stdout.split()[-2:]
    return float(seconds), float(megabytes)


def measure_all(paths, folder=None):
    """{path: (seconds, megabytes)} of several notebooks, two at a time."""
    with ThreadPoolExecutor(PROCESSES) as pool:
        outputs = [folder / path.name if folder else os.devnull for path in paths]
        return dict(zip(paths, pool.map(measure, paths, outputs), strict=True))


def main():
    if "--run" in sys.argv:
        return run(*sys.argv[-2:])
    start = time.monotonic()
    found = measure_all(sorted(BOOK.glob("*.ipynb")))
    total = time.monotonic() - start
    rows = [f"| [{path.stem}]({path.name}) | {seconds:.1f} | {megabytes:.0f} |"
            for path, (seconds, megabytes) in found.items()]
    machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    text = HEAD.format(processes=PROCESSES, machine=machine, total=total, limit=MEGABYTES)
    text += "\n".join(rows) + "\n"
    print(text)
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    return max(megabytes for _, megabytes in found.values()) > MEGABYTES


if __name__ == "__main__":
    sys.exit(main())
