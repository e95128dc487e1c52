VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs_installed
BASE_PYTHON ?= $(shell command -v python3.11 || command -v python3)

.PHONY: setup demo test lint docs accuracy bench clean

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

# One thread each, so that the two test processes do not fight over the cores.
test: setup
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest -n 2

lint: setup
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

$(DOCS_INSTALLED): $(INSTALLED)
	$(PYTHON) -m pip install -c constraints.txt --no-build-isolation -e '.[dev,docs]'
	touch $@

# The pages, with every warning an error, and every example in them as a test.
docs: $(DOCS_INSTALLED)
	$(PYTHON) -m sphinx -W --keep-going -q -b html docs docs/_build
	OMP_NUM_THREADS=1 $(PYTHON) -m pytest --doctest-glob='*.md' README.md docs
	@echo "open docs/_build/index.html"

accuracy: setup
	$(PYTHON) benchmarks/accuracy.py

bench: setup
	$(PYTHON) benchmarks/run_all.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .hypothesis figures docs/api docs/_build
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
