# Every target sets up what it needs on a fresh machine; `make` prints this help.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
CODEC := $(VENV)/.codec
export RAY_AUTH_MODE ?= disabled

.DEFAULT_GOAL := help
.PHONY: help setup quickstart test fmt lint types imports check codec docs clean

help: ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "setuptools>=77" "cython>=3.1" wheel
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,dev]"
	mkdir -p .typecheck && ln -sfn .. .typecheck/headrace
	touch $(STAMP)

$(CODEC): $(STAMP) $(wildcard protocol/records/*.pyx protocol/records/*.pxi)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	touch $(CODEC)

setup: $(CODEC) ## make .venv with everything, build the compiled codec

codec: ## rebuild the compiled codec
	rm -f $(CODEC)
	$(MAKE) --no-print-directory $(CODEC)

quickstart: $(CODEC) ## a file through a three-node cluster on Ray and back (INPUT=path)
	$(BIN)/headrace quickstart $(if $(INPUT),--input "$(INPUT)")

test: $(CODEC) ## all tests
	$(BIN)/python -m pytest -q -n auto --dist loadgroup $(ARGS)

fmt: $(CODEC) ## format the code
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

lint: $(CODEC) ## ruff: rules and format
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

types: $(CODEC) ## mypy --strict
	$(BIN)/mypy -p headrace

imports: $(CODEC) ## the import contracts
	$(BIN)/lint-imports

check: lint types imports test ## what CI runs

docs: $(CODEC) ## write the reference pages docs/CONFIG.md, ERRORS.md, STATES.md
	$(BIN)/python -m headrace.services.reference

clean: ## remove what the targets made
	rm -rf $(VENV) .typecheck build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name '__pycache__' -prune -exec rm -rf {} +
	find protocol -name '*.so' -delete ; rm -f protocol/records/_batch.c
