# `make demo` shows objq at work, `make test` tests it. Both do all the set-up that they need.
#
#   PYTHON=python3.13   the interpreter that the virtual environment is made with
#   VENV=.venv313       where to make it
#   ARGS="-k wheel"     further arguments of pytest
#   JOBS=2              tests at the same time
#   DJANGO=django~=5.2  which Django, if not the newest that the Python runs
#   OBJQ_CHROMIUM=/path the browser for tests and screenshots, if not the Chromium on the PATH

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
JOBS ?= 2
DJANGO ?=
BIN := $(VENV)/bin

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@sed -nE 's/^([a-z][a-z0-9-]*):.*## (.*)/  make \1|\2/p' Makefile | \
	    while IFS='|' read -r target text; do printf '%-20s %s\n' "$$target" "$$text"; done

.PHONY: demo
demo: $(VENV)/.for-use ## see it work on real input, on the dashboard (ONCE=1: end after the report)
	$(BIN)/python -m project.demo $(if $(filter-out 0,$(ONCE)),--once)

.PHONY: test
test: $(VENV)/.for-work ## run the whole test suite, with Chromium if it is there (ARGS="-k name")
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

.PHONY: test-django6
test-django6: ## the same with the newest Django, if there is a Python 3.12+
	@python="$$(tools/second_python.sh)" || exit 0; \
	    $(MAKE) test VENV=.venv-django6 PYTHON="$$python"

.PHONY: test-django60
test-django60: ## what meets Django, with Django 6.0, if there is a Python 3.12+
	@python="$$(tools/second_python.sh)" || exit 0; \
	    $(MAKE) test VENV=.venv-django60 PYTHON="$$python" DJANGO="django~=6.0.0" \
	    ARGS="tests/backend tests/dashboard tests/site/test_pages.py tests/worker/test_execute.py"

.PHONY: sim
sim: $(VENV)/.for-work ## prove the promises in simulated worlds (SEEDS=1000, SEED=the first one)
	$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),1000) $(if $(SEED),--seed $(SEED))

.PHONY: mutants
mutants: $(VENV)/.for-work ## prove that the simulation sees faults (SEEDS=worlds for each at most)
	$(BIN)/python -m tests.sim.mutants $(if $(SEEDS),--seeds $(SEEDS))

.PHONY: chaos
chaos: $(VENV)/.for-work ## kill and stop real processes, account for each job (SECONDS=180, SEED=)
	$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),180) \
	    $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS))

.PHONY: overload
overload: $(VENV)/.for-work ## push three times what a broker can commit (SECONDS=60)
	$(BIN)/python -m tests.chaos.overload --seconds $(or $(SECONDS),60)

.PHONY: fuzz
fuzz: $(VENV)/.for-work ## give hostile input to all that reads bytes of others (SECONDS=120, SEED=)
	@$(BIN)/python -c "import atheris" 2>/dev/null || \
	    $(BIN)/python -m pip install --quiet --only-binary atheris --editable '.[fuzz]' || true
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED))

.PHONY: lint
lint: $(VENV)/.for-work ## style, types, who may import whom, and no missing migration
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run

.PHONY: format
format: $(VENV)/.for-work ## write the source in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.for-work ## write the transition table in docs/ again from the code
	$(BIN)/python -m tools.docs

.PHONY: screenshots
screenshots: $(VENV)/.for-work ## take the pictures of the dashboard in docs/ again (needs Chromium)
	$(BIN)/python -m tests.browser.screenshots

.PHONY: bench
bench: $(VENV)/.for-work ## measure (ONLY=name: one part)
	ONLY="$(ONLY)" $(BIN)/python -m bench

.PHONY: build
build: $(VENV)/.for-work ## make the wheel and the source archive in dist/
	$(BIN)/python -m build

.PHONY: clean
clean: ## remove the virtual environments and everything that was built
	rm -rf .venv .venv-django6 .venv-django60 .cache .demo build dist .mypy_cache .pytest_cache .ruff_cache \
	    .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# --- the virtual environment ----------------------------------------------------------------------

$(BIN)/python:
	@tools/make_venv.sh "$(PYTHON)" "$(VENV)"

# What runs the demo, and what tests and lint need besides. A changed pyproject.toml installs again.
$(VENV)/.for-use: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.for-work: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]' $(DJANGO)
	@touch $@ $(VENV)/.for-use
