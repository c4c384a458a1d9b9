"""Re-execute notebooks in place: python book/refresh.py [NOTEBOOK ...] (all of them by default)."""

import sys
from pathlib import Path

import nbformat
from measure import client

BOOK = Path(__file__).resolve().parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"


def main():
    for path in [Path(name) for name in sys.argv[1:]] or sorted(BOOK.glob("*.ipynb")):
        print(path)
        notebook = client(path, timeout=120).execute()
        # What differs from run to run, or machine to machine, without saying anything, is not stored.
        notebook.metadata = nbformat.from_dict(METADATA)
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                output.get("data", {}).pop(WIDGET, None)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
