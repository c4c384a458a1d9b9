"""Where a figure comes from: versions, commit, memory, and a hash of its data."""

import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import numpy as np


def plain(value):
    """Parameters as JSON can hold them."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def data_hash(arrays):
    """SHA-256 over names, types, shapes and bytes of arrays; exact, hence machine-dependent."""
    digest = hashlib.sha256()
    for key in sorted(arrays):
        value = np.ascontiguousarray(arrays[key])
        digest.update(f"{key} {value.dtype.str} {value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def versions():
    """Versions of Python and of the packages that compute and draw."""
    packages = ("attn-clusters", "numpy", "scipy", "matplotlib")
    found = {name: _version(name) for name in packages}
    return {"python": platform.python_version(), "platform": platform.platform()} | found


def _version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def commit():
    """Commit of the source tree, with "+changes" if it was edited; None outside its checkout."""
    def git(*words):
        done = subprocess.run(["git", "-C", str(Path(__file__).parent), *words],
                              capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        # An installed copy may lie inside somebody else's checkout, which does not track it.
        tracked = git("ls-files", "--error-unmatch", __file__) is not None
        found = git("rev-parse", "HEAD") if tracked else None
        edited = git("status", "--porcelain", "--", str(Path(__file__).parents[1]))
    except OSError:
        return None
    return found and found + ("+changes" if edited else "")


def peak_memory():
    """Peak resident memory of this process so far in megabytes; None where it is not known."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if platform.system() == "Darwin" else 2**10), 1)
