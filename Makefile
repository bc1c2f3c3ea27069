# `make` alone lists every command. Nothing is installed outside the clone but system packages.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
export UV_PYTHON_DOWNLOADS ?= never

BIN := .venv/bin
SYNCED := .venv/.synced
ARGS ?=
# Tests wait a lot: three at a time take a third as long, on two cores too. A file's tests stay together.
WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help setup system parts demo test unit simulate lint format bench changelog clean distclean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SYNCED) ## Bring uv into the clone and install the locked dependencies into .venv

system: ## Install what the tests' real parts are made of (root or sudo; apt-get)
	@setup/system.sh

parts: system ## Fetch the real parts of the tests (Kafka, anvil, btcd) into .parts
	@setup/parts.sh

demo: $(SYNCED) ## Show ten stories in this terminal, two more with litecoind (ARGS=--once; CHAIN=anvil)
	@$(BIN)/reconciler demo $(if $(CHAIN),--chain $(CHAIN)) $(ARGS)

test: setup parts lint ## Everything: set-up, lint, all tests, WORKERS at a time (ARGS goes to pytest)
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

unit: $(SYNCED) ## Only what needs no real part: some minutes
	@$(BIN)/pytest -q tests/unit tests/properties tests/house $(ARGS)

simulate: $(SYNCED) ## Run seeds of the simulator on all cores (SEEDS=10000, SEEDS=17:18 ARGS=--tell)
	@$(BIN)/python -m tests.simulate $(or $(SEEDS),10000) $(ARGS)

lint: $(SYNCED) ## Format, style, types, rooms, dependencies, spelling: only looks
	@$(BIN)/ruff format --check -q .
	@$(BIN)/ruff check -q .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports >.lint-imports.log || { cat .lint-imports.log; exit 1; }
	@$(BIN)/deptry . 2>.deptry.log || { cat .deptry.log; exit 1; }
	@$(BIN)/typos
	@echo "lint: clean"

format: $(SYNCED) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff format -q .
	@$(BIN)/ruff check -q --fix .

bench: setup parts ## Measure the budgets (tests/bench), each beside its floor or peer
	@$(BIN)/pytest -q -s --timeout=0 tests/bench $(ARGS)

changelog: $(SYNCED) ## Show what the fragments in .changes/ will say
	@$(BIN)/towncrier build --draft --version next

clean: ## Remove caches and builds
	@rm -rf dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .*.log
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

distclean: clean ## Remove also .venv, .tools and .parts
	@rm -rf .venv .tools .parts

$(SYNCED): pyproject.toml uv.lock
	@uv=$$(setup/uv.sh); "$$uv" sync --quiet --locked; touch $@
