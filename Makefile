# Two commands do all on a machine that has Python and nothing of ours: `make demo`, `make test`.
# The environment is .venv; it is installed again when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests that start mpiexec share the xdist group "mpi", so that two of them never fight for the cores.
PYTEST_ARGS ?= -n 2 --dist loadgroup

.PHONY: help demo test nightly lint bench pictures clean

help: ## say what can be made
	@grep -E '^[a-z]+: .*##' Makefile | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

demo: $(VENV)/.with-mpi ## rank algorithms for 64 H100s, prove them exact on 4 ranks, time two on 2 beside what is predicted
	$(BIN)/ringloom compare --cluster dgx_h100 --nodes 8 --model llama3-70b --seq 1M --mask causal
	$(BIN)/mpiexec -n 4 $(BIN)/ringloom-run check all --mask causal
	@mkdir -p $(DEMO)
	$(BIN)/mpiexec -n 2 $(BIN)/ringloom-run calibrate --quick --out $(DEMO)/here.json
	$(BIN)/mpiexec -n 2 $(BIN)/ringloom-run time ring --seq 2K --heads 4 --head-dim 64 --timeline $(DEMO)/ring.json
	$(BIN)/mpiexec -n 2 $(BIN)/ringloom-run time attention2d --seq 2K --heads 4 --head-dim 64 --timeline $(DEMO)/grid.json
	$(BIN)/ringloom validate --measured $(DEMO)/ring.json --cluster $(DEMO)/here.json
	$(BIN)/ringloom validate --measured $(DEMO)/grid.json --cluster $(DEMO)/here.json

test: $(VENV)/.with-test ## run the whole test suite
	$(BIN)/python -m pytest $(PYTEST_ARGS)

nightly: $(VENV)/.with-test ## draw ten times as many problems in the property tests of exactness
	NIGHTLY=1 $(BIN)/python -m pytest $(PYTEST_ARGS) tests/executor/test_local.py

lint: $(VENV)/.with-dev ## check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.with-test ## measure speed
	$(BIN)/python -m pytest -m benchmark

pictures: $(VENV)/.with-test ## draw the pictures of docs/topologies.md again
	$(BIN)/python -m tests.docs.pictures

clean: ## remove the environment and all that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@command -v $(PYTHON) > /dev/null || { echo "ringloom needs Python 3.11 or newer: no $(PYTHON) found; say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ringloom needs Python 3.11 or newer: $(PYTHON) is `$(PYTHON) -V`; say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || \
	  { echo "ringloom needs Python's venv: $(PYTHON) lacks it (on Debian: apt install python3-venv); or say make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Each extra holds the one before it, so that its stamp stands for theirs too.
$(VENV)/.with-mpi: pyproject.toml | $(BIN)/pip
	$(PIP) --editable '.[mpi]'
	@touch $@

$(VENV)/.with-test: pyproject.toml | $(BIN)/pip
	$(PIP) --editable '.[test]'
	@touch $(VENV)/.with-mpi $@

$(VENV)/.with-dev: pyproject.toml | $(BIN)/pip
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.with-mpi $(VENV)/.with-test $@
