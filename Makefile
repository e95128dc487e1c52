VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs_installed
BASE_PYTHON ?= $(shell command -v python3.11 || command -v python3)
ARVIZ_VENV := .venv_arviz1
OLDEST_VENV := .venv_oldest
NEWER_PYTHON ?= $(shell command -v python3.13 || command -v python3.12)

.PHONY: setup demo test long arviz1 oldest lint docs accuracy bench mutants clean

setup: $(INSTALLED)

$(PYTHON):
	$(BASE_PYTHON) -m venv $(VENV)

# setuptools comes first so that the editable build uses the locked one, torch because it is large.
$(INSTALLED): pyproject.toml constraints.txt | $(PYTHON)
	$(PYTHON) -m pip install -c constraints.txt setuptools wheel
	$(PYTHON) -m pip install -c constraints.txt torch==2.13.0
	$(PYTHON) -m pip install -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

# Networks this small are fastest on one thread.
demo: setup
	OMP_NUM_THREADS=1 $(PYTHON) examples/digits_crowd.py

# One thread each, so that the two test processes do not fight over the cores. Each begins with half
# of the files, so that what the tests of a file share is mostly made once. What Python makes of the
# sources is kept for the next run, also where a shell says otherwise: it takes both processes, and
# those that tests start, 15 seconds each.
TWO_PROCESSES := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2 --dist worksteal

test: setup
	$(TWO_PROCESSES) -m "not long"

# The tests that fit for long: searches on whole tables, coverage of intervals, benchmarks, the
# examples in docs/.
long: setup
	$(TWO_PROCESSES) -m long

# What is written for ArviZ, with ArviZ 1.x in place of the locked 0.2x; 1.x needs Python 3.12.
$(ARVIZ_VENV)/.installed: pyproject.toml constraints.txt
	$(NEWER_PYTHON) -m venv $(ARVIZ_VENV)
	grep -v '^arviz==' constraints.txt > $(ARVIZ_VENV)/constraints.txt
	$(ARVIZ_VENV)/bin/python -m pip install -c $(ARVIZ_VENV)/constraints.txt \
	    -e . 'arviz>=1' beartype h5netcdf h5py hypothesis pytest
	touch $@

arviz1: $(ARVIZ_VENV)/.installed
	OMP_NUM_THREADS=1 $(ARVIZ_VENV)/bin/python -m pytest tests/diagnostics tests/test_restarts.py

# The oldest versions that pyproject.toml admits, of everything that it names.
$(OLDEST_VENV)/.installed: pyproject.toml constraints-oldest.txt
	$(BASE_PYTHON) -m venv $(OLDEST_VENV)
	$(OLDEST_VENV)/bin/python -m pip install -c constraints-oldest.txt setuptools wheel torch
	$(OLDEST_VENV)/bin/python -m pip install -c constraints-oldest.txt --no-build-isolation \
	    -e . build hypothesis pyarrow pytest pytest-xdist
	touch $@

oldest: $(OLDEST_VENV)/.installed
	OMP_NUM_THREADS=1 $(OLDEST_VENV)/bin/python -m pytest -n 2 tests

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

$(DOCS_INSTALLED): $(INSTALLED)
	$(PYTHON) -m pip install -c constraints.txt --no-build-isolation -e '.[dev,docs]'
	touch $@

# The pages, with every warning an error. The examples in them are tests like any others.
docs: $(DOCS_INSTALLED)
	rm -rf docs/api
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

accuracy: setup
	$(PYTHON) benchmarks/accuracy.py

# Small mistakes in the mathematical core, and whether the tests notice; about half an hour.
mutants: setup
	OMP_NUM_THREADS=1 $(PYTHON) tests/mutants.py

bench: setup
	$(PYTHON) benchmarks/run_all.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis figures docs/api docs/_build
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
