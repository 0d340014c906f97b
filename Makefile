# Every target runs in the project's own .venv, which is created here with pinned versions.
# The only requirement is python3 (3.11 or newer) with its venv module.
PYTHON ?= python3
BIN := .venv/bin
# Number of test processes. COVERAGE=1 adds a coverage report to `make test` and enforces the floor in pyproject.toml.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest
PARALLEL := -n $(JOBS) --dist worksteal
# Test modules are compiled once, not by every test process and every program that a test starts.
unexport PYTHONDONTWRITEBYTECODE

# Seconds of `make fuzz` for each reader.
FUZZ_SECONDS ?= 600

.PHONY: help demo test test-long test-scale fuzz mutants lint docs bench release-check hooks clean

help:
	@echo "make demo           from a folder of images to a search and a report, in cbid-demo/ (one minute)"
	@echo "make test           the everyday tests, in two processes (five minutes on two cores; COVERAGE=1 adds the coverage report)"
	@echo "make test-long      the long statistical and exhaustive tests"
	@echo "make test-scale     tests with a Dask cluster of two worker processes and a Milvus server"
	@echo "make fuzz           coverage-guided inputs for every reader, ten minutes each (FUZZ_SECONDS=600; READERS='index table')"
	@echo "make mutants        20,000 damaged files of all formats; raw result in benchmarks/results"
	@echo "make lint           ruff, mypy and the allowed imports between packages"
	@echo "make docs           the documentation, into build/docs; warnings are errors"
	@echo "make bench          the measured claims next to their rivals (long); raw results in benchmarks/results"
	@echo "make release-check  build sdist and wheel, install the wheel into an empty environment and try it"
	@echo "make hooks          run lint before every commit (needs the program pre-commit)"
	@echo "make clean          remove .venv and everything that is built"

# The demo needs the program, its plots, its page and its network; the tests need all extras.
.venv/.library: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/.program: .venv/.library
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cli,plots,serve,deep]'
	@echo "compiling the search kernels (once, about a minute)"
	@$(BIN)/python -c 'from cbid.search import prepare_search; prepare_search()'
	@touch $@

.venv/.dev: .venv/.library
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: .venv/.program
	$(BIN)/cbid demo

test: .venv/.dev
	$(PYTEST) $(PARALLEL) -m 'not scale and not long' $(if $(COVERAGE),--cov --cov-report=term:skip-covered)

test-long: .venv/.dev
	$(PYTEST) $(PARALLEL) -m 'long and not scale'

test-scale: .venv/.dev
	$(PYTEST) -m scale

fuzz: .venv/.dev
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m attacks.reader_fuzz $(FUZZ_SECONDS) $(READERS)

mutants: .venv/.dev
	$(BIN)/python -m attacks.file_mutants 20000 benchmarks/results/file_mutants.json

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.dev
	$(BIN)/python -m sphinx -W -q -b html docs build/docs

bench: .venv/.dev
	$(BIN)/python -m benchmarks

release-check: .venv/.dev
	$(PYTEST) tests/test_release.py -m long

hooks: .venv/.dev
	pre-commit install

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .numba_cache .coverage
