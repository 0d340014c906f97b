# Everything runs in the project's own .venv, made here from pinned versions; nothing else is needed but
# python3 (3.11 or newer) with its venv module.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help demo test test-scale lint docs bench clean

help:
	@echo "make demo    from a folder of images to a search and a report, in cbid-demo/ (a minute)"
	@echo "make test    the test suite"
	@echo "make test-scale   tests on a Dask cluster of two worker processes and a Milvus server"
	@echo "make lint    ruff and mypy"
	@echo "make docs    the documentation, into build/docs; warnings are errors"
	@echo "make bench   the measured claims, side by side with their rivals (long); raw results in benchmarks/results"

# The demo needs the program and its plots, the tests all the rest.
.venv/.library: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.program: .venv/.library
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cli,plots]'
	@touch $@

.venv/.dev: .venv/.library
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.program
	$(BIN)/cbid demo

test: .venv/.dev
	$(BIN)/python -m pytest -m 'not scale'

test-scale: .venv/.dev
	$(BIN)/python -m pytest -m scale

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/.dev
	$(BIN)/python -m sphinx -W -q -b html docs build/docs

bench: .venv/.dev
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
