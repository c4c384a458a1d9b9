"""Build the site in _build/html: python book/build.py [--if-stale]."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import measure

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
INDEX = BUILD / "html" / "index.html"
STAMP = BUILD / "built.json"
MEASURED = BUILD / "runtime.json"
LIBRARY = ["attn_clusters", "pyproject.toml", "requirements.lock"]
SITE = [*LIBRARY, "_config.yml", "_toc.yml", "book"]


def digest(names):
    """A hash over the files below these names, and over the interpreter that runs them."""
    sha = hashlib.sha256(sys.version.encode())
    for top in names:
        paths = [ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*"))
        for path in paths:
            hidden = {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
            if path.is_file() and not hidden:
                sha.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()


def execute():
    """Run the notebooks that are not in the cache, two at a time; keep what they needed."""
    from jupyter_cache import get_cache

    cache, executed = get_cache(BUILD / ".jupyter_cache"), BUILD / "executed"
    notebooks = sorted((ROOT / "book").glob("*.ipynb"))
    missing = [path for path in notebooks if not cached(cache, path)]
    executed.mkdir(exist_ok=True)
    before = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    needed = {path.name: before[path.name] for path in notebooks if path.name in before}
    for path, measured in measure.measure_all(missing, executed).items():
        needed[path.name] = measured
        cache.cache_notebook_file(executed / path.name, uri=str(path), check_validity=False,
                                  overwrite=True)
    MEASURED.write_text(json.dumps(needed, indent=2))
    MEASURED.with_suffix(".md").write_text(measure.table(needed))


def cached(cache, path):
    try:
        return cache.match_cache_file(path)
    except KeyError:
        return None


def main():
    start = time.monotonic()
    os.chdir(ROOT)
    now = {"library": digest(LIBRARY), "site": digest(SITE)}
    before = json.loads(STAMP.read_text()) if STAMP.exists() else {}
    ci = bool(os.environ.get("CI"))

    fresh = before.get("site") == now["site"] and INDEX.exists()
    if not fresh or (ci and "--if-stale" not in sys.argv):
        # Only executed notebooks are kept from one build to the next, and only while the library
        # is the same: an incremental build would not repeat the warnings of pages it skips.
        if ci or before.get("library") != now["library"]:
            shutil.rmtree(BUILD / ".jupyter_cache", ignore_errors=True)
        for old in ("html", ".doctrees"):
            shutil.rmtree(BUILD / old, ignore_errors=True)
        BUILD.mkdir(exist_ok=True)
        STAMP.write_text(json.dumps({"library": now["library"]}))
        try:
            execute()
        except RuntimeError as failure:
            sys.exit(f"{failure}\nThe book was not built: a notebook failed.")
        command = "from jupyter_book.cli.main import main; main()"
        done = subprocess.run([sys.executable, "-c", command, "build", ".", "-W", "-n", "--keep-going"])
        if done.returncode:
            sys.exit(f"The book was not built: see the warnings above "
                     f"({time.monotonic() - start:.0f} s).")
        STAMP.write_text(json.dumps(now))
    print(f"{INDEX} ({'already up to date' if fresh else 'built'}, {time.monotonic() - start:.1f} s)")


if __name__ == "__main__":
    main()
