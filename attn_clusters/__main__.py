"""The command line: ``python -m attn_clusters``, also installed as ``attn-clusters``."""

import argparse
import sys
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from tqdm import tqdm

from . import __version__, classify, experiments
from ._tables import text_table
from .experiments.jobs import differences, each, save, update
from .index import statement_rows

DEFAULT_OUT = "figures"


def main(arguments=None):
    """Run the command line; return the exit code: 0, 1 for differences, 2 for bad arguments."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except ValueError as error:
        print(f"attn-clusters: {error}", file=sys.stderr)
        return 2


def _list(options):
    rows = [(name, item.statement, item.title) for name, item in experiments.experiments().items()]
    print(text_table(("figure", "statement", "title"), rows))
    return 0


def _figure(options):
    result = experiments.figure(options.name)
    for path in result.save(options.out):
        print(path)
    print(result)
    return 0


def _figures(options):
    names = experiments.figures()
    for name, seconds in tqdm(each(save, names, options.jobs, options.out), total=len(names)):
        tqdm.write(f"{name}: {seconds:.1f} s")
    print(f"{len(names)} figures in {Path(options.out)}")
    return 0


def _check(options):
    names = options.names or experiments.figures()
    for name in names:
        experiments.find(name)
    found = []
    work = update if options.update else differences
    for name, lines in tqdm(each(work, names, options.jobs), total=len(names)):
        found += lines
        tqdm.write(f"{name}: {len(lines)} differences")
    print("\n".join(found) or f"{len(names)} figures agree with their reference numbers")
    return 1 if found else 0


def _classify(options):
    print(classify(**load_matrices(options.file)))
    return 0


def _statements(options):
    header, rows = statement_rows()
    print(text_table(header, rows))
    return 0


def load_matrices(path):
    """Q, K and V from an .npz file.

    Raises
    ------
    ValueError
        If the file cannot be read or an array is missing.
    """
    try:
        with np.load(path) as stored:
            missing = [name for name in "QKV" if name not in stored]
            if missing:
                raise ValueError(f"FILE: {path} has no array {', '.join(missing)}; "
                                 f"it has {', '.join(stored.files) or 'none'}")
            return {name: stored[name] for name in "QKV"}
    except (OSError, BadZipFile, AttributeError, TypeError) as error:
        raise ValueError(f"FILE: {path} is not a readable .npz file ({error})") from error


def _parser():
    parser = argparse.ArgumentParser(prog="attn-clusters", description="Figures, reference numbers "
                                     "and statements of the companion to two papers on attention "
                                     "as an interacting particle system.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, text):
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(run=run)
        return added

    command("list", _list, "names of all figures")
    one = command("figure", _figure, "compute one figure; leaves image, data and provenance")
    one.add_argument("name", metavar="NAME")
    every = command("figures", _figures, "compute every figure of the book")
    check = command("check", _check, "recompute figures and compare with the reference numbers")
    check.add_argument("names", metavar="NAME", nargs="*")
    check.add_argument("--update", action="store_true",
                       help="store this run's numbers as the references instead")
    for added in (one, every):
        added.add_argument("--out", metavar="DIR", default=DEFAULT_OUT,
                           help="folder to write to (default: %(default)s)")
    for added in (every, check):
        added.add_argument("--jobs", metavar="N", type=_jobs, default=1,
                           help="number of processes (default: %(default)s)")
    own = command("classify", _classify, "which statements apply to your own Q, K, V")
    own.add_argument("file", metavar="FILE.npz", help="arrays Q, K (k, d) and V (d, d)")
    command("statements", _statements, "statement -> function -> figure -> test")
    return parser


def _jobs(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
