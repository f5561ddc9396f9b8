# What can be done here? `make help` says it in one line each.

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test check rules types every quick soak prove sbom bench format clean

PYTHON ?= python3
WORKERS ?= 2
# Many of the slow tests wait for real processes: two more workers use the time.
TEST_WORKERS ?= 4
# Every test in these folders is slow: `make check` does not even read them.
SLOW := browser fuzz integration world
SECONDS ?= 600
KILLS ?= 1000
WHERE ?=
BIN := .venv/bin
# The tests start hundreds of processes. Compiling every module again in each of them would take minutes.
export PYTHONDONTWRITEBYTECODE :=
CODE := $(wildcard src tests tools bench)

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

setup: ## the virtual environment in .venv, with everything in it (later calls return at once)
	@$(PYTHON) tools/setup.py

demo: setup ## mirror a simulated Hacker News into ./demo, with the console on 127.0.0.1:8611
	@echo "demo: starting a simulated provider and mirroring it into ./demo; Ctrl-C ends it"
	@$(BIN)/remora up --demo

docs: setup ## the documentation as a site in build/docs, searchable without a network
	@$(BIN)/python -m tools.docs_site

test: rules ## all rules and every test, with a real PostgreSQL and a real browser where they can be had
	@$(BIN)/python -m tools.services
	@$(MAKE) --no-print-directory -j 2 types every

check: rules ## format, lint, layers, types and the quick tests; under 90 seconds
	@$(MAKE) --no-print-directory -j 2 types quick

rules: setup
	@echo "rules: format"
	@$(BIN)/ruff format --check --quiet $(CODE) || { echo "rules: 'make format' repairs the format"; exit 1; }
	@echo "rules: lint"
	@$(BIN)/ruff check --quiet $(CODE)
	@echo "rules: layers"
	@$(BIN)/lint-imports --no-logo --no-cache

types: # beside the tests: alone it would leave a core idle for 20 seconds
	@echo "rules: types"
	@$(BIN)/mypy $(CODE)

every:
	@echo "test: running every test"
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadgroup

quick:
	@echo "check: quick tests"
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup -m "not slow and not postgres" $(SLOW:%=--ignore=tests/%)

soak: setup ## random worlds from fresh seeds for SECONDS (600), perhaps only some (WHERE="size=long"); adds to docs/reliability.json
	@nice $(BIN)/python -m remora.sim.fuzz --seed $$(date +%s)000 --seconds $(SECONDS) --workers $(WORKERS) \
		--record docs/reliability.json $(if $(WHERE),--where $(WHERE)) --commit "$$(git describe --always --dirty --abbrev=12 --exclude='*' || echo unknown)"

prove: setup ## fresh worlds for SECONDS, all planted bugs, a sample of mutants, faults, KILLS kills (1000); writes docs/reliability.md
	@nice $(BIN)/python -m tools.prove --seconds $(SECONDS) --kills $(KILLS)

sbom: setup ## what an installation contains: CycloneDX in build/, docs/licences.md, constraints-hashed.txt
	@$(BIN)/python -m tools.sbom

bench: setup ## measure speed and politeness on this machine; writes docs/performance.md
	@$(BIN)/python -m bench

format: setup ## bring the code into its one format and repair what can be repaired
	@$(BIN)/ruff check --quiet --fix-only $(CODE)
	@$(BIN)/ruff format $(CODE)

clean: ## remove what can be made again (never a mirror)
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: done"
