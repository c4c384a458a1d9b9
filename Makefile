# `make book` and `make test` each do all they need from a fresh clone: git, make and Python >= 3.11.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/ready

# Settings of the reader's own must not reach the kernels, nor this project the reader's home.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP MPLBACKEND MATPLOTLIBRC JUPYTER_PATH
unexport JUPYTER_CONFIG_PATH PIP_TARGET PIP_PREFIX PYTEST_ADDOPTS
export PYTHONNOUSERSITE := 1
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/var/matplotlib
export IPYTHONDIR := $(CURDIR)/$(VENV)/var/ipython
export JUPYTER_CONFIG_DIR := $(CURDIR)/$(VENV)/var/jupyter
export JUPYTER_DATA_DIR := $(CURDIR)/$(VENV)/var/jupyter
export JUPYTER_RUNTIME_DIR := $(CURDIR)/$(VENV)/var/jupyter/runtime

# Notebooks and tests run two at a time on small arrays: threads of one's linear algebra would wait
# for the other's, which can make it a hundred times slower, and the last bits depend on their number.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1

.PHONY: help book test figures notebooks bench lock clean

help:
	@echo "make book       build the site in _build/html (warnings are errors)"
	@echo "make test       run every test: library, figures' numbers, notebooks, site"
	@echo "make figures    draw every figure of the book into _build/figures"
	@echo "make notebooks  re-execute the notebooks in place, to refresh their stored outputs"
	@echo "make bench      measure the library on this machine, for the page on performance"
	@echo "make lock       resolve requirements.lock anew from pyproject.toml"
	@echo "make clean      remove _build and .venv"
	@echo
	@echo "Another interpreter than python3: make PYTHON=/path/to/python3.12 book"

# The font cache is built here: built later, its notice would land in a notebook's output.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is not: make PYTHON=/path/to/python3 ..."; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	$(PY) -c "import matplotlib.font_manager"
	touch $(READY)

book: $(READY)
	@$(PY) book/build.py

test: $(READY)
	@$(PY) book/build.py --if-stale
	$(PY) -m pytest -n 2 --dist loadfile \
	  --nbval --nbval-current-env --nbval-sanitize-with tests/nbval_sanitize.cfg tests book

figures: $(READY)
	$(PY) -m attn_clusters figures --out _build/figures

notebooks: $(READY)
	$(PY) book/refresh.py

bench: $(READY)
	$(PY) benchmarks/run.py

lock:
	$(PYTHON) -m venv --clear _build/lock
	_build/lock/bin/python -m pip install --quiet uv
	_build/lock/bin/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  --extra book --extra test --output-file requirements.lock pyproject.toml

clean:
	rm -rf _build $(VENV)
