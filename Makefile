# archmodel: `make` lists what there is. Needs python3 (3.11 or newer) with venv, and make; nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format renew docs studies wheel clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOG := $(VENV)/setup.log
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt PIP_BUILD_CONSTRAINT=$(CURDIR)/constraints.txt \
  PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip install --quiet -c constraints.txt

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with archmodel and its tools

# Pinned by constraints.txt, build tools included. Quiet, unless it fails.
$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "archmodel needs Python 3.11 or newer; this is $$($(PYTHON) --version)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "no venv here; on Debian: apt-get install -y python3-venv make"; rm -rf $(VENV); exit 1; }
	@$(INSTALL) -e '.[dev]' >$(LOG) 2>&1 || { cat $(LOG); exit 1; }
	@$(BIN)/python -m compileall -q archmodel # also where imports write no bytecode
	@touch $(STAMP)

demo: $(STAMP) ## evaluate two published systems
	@for design in mlperf_dcnv2_dgx_h100 neo_a_zionex_16x8; do \
	  echo "\$$ archmodel evaluate designs/$$design.yaml"; $(BIN)/archmodel evaluate designs/$$design.yaml; echo; done

test: $(STAMP) ## run the tests
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 $(ARGS)

lint: $(STAMP) ## style, types, floors, spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/codespell

format: $(STAMP) ## let ruff lay out the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

renew: $(STAMP) ## renew the output that README.md and docs/ show
	@$(BIN)/python docs/renew.py

docs: $(STAMP) ## build the manual into docs/_build/html; a warning is an error
	@$(BIN)/sphinx-build -j 2 -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

studies: $(STAMP) ## run every study into docs/gallery, with an index page
	@$(BIN)/python studies/_gallery.py -o docs/gallery $(ARGS)

wheel: $(STAMP) ## build dist/*.whl with the catalogue of designs inside
	@$(BIN)/python -m pip wheel --quiet --no-deps -w dist .

clean: ## remove .venv and everything generated
	rm -rf $(VENV) dist build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
