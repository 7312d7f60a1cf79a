# Every target sets up what it needs: Python 3.11 or later and make are enough.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:
.DELETE_ON_ERROR:

PYTHON ?= python3
WORKERS ?= 3
UV := uv==0.13.7

BIN := .venv/bin
READY := .venv/.ready
PIP := -m pip --disable-pip-version-check --no-input -qq

.PHONY: help
help: ## show this list
	@echo "make TARGET   (PYTHON=python3.12 picks the interpreter, now $(PYTHON))"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(READY) ## watch a session crash in the middle of a turn and finish after the resume; offline, no key
	@$(BIN)/backstay demo

.PHONY: demo-local
demo-local: .venv/.local ## the same on a real small model: fetches its engine (34 MB) and the model (1.1 GB) once, no key
	@$(BIN)/python -m backstay.demo.local $(DEMO_FLAGS)

.PHONY: test
test: $(READY) ## run the tests; the last line is the coverage of the contracts
	@status=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || status=$$?; \
	$(BIN)/python -m backstay.testing.contracts || status=1; \
	exit $$status

.PHONY: test-wheel
test-wheel: $(READY) ## build the wheel, install it in empty environments, and run what the hints say; needs a package index
	@BACKSTAY_INDEX=1 $(BIN)/python -m pytest -n 2 tests/system/test_installation.py

.PHONY: test-pythons
test-pythons: ## run the fast tests on every Python from 3.11 on that this machine has
	@$(call need_python)
	@WORKERS=$(WORKERS) $(PYTHON) scripts/test_pythons.py $(PYTHONS)

.PHONY: check
check: $(READY) ## check format, lint, types, layers and shape
	@$(BIN)/ruff format --check --quiet . || { echo "Run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_layers.py tests/test_shape.py

.PHONY: bench
bench: $(READY) ## measure the numbers that the design holds itself to
	@$(BIN)/python -m benchmarks

.PHONY: torture
torture: $(READY) ## run the long proofs: every crash point, power loss, random histories
	@$(BIN)/python -m tests.torture

.PHONY: docs
docs: $(READY) ## write the generated documents again
	@$(BIN)/python -m scripts.docs.event_schema > .events.schema.json && mv .events.schema.json src/backstay/wire/events.schema.json
	@$(BIN)/python -m scripts.docs.references docs/
	@$(BIN)/python -m backstay.testing.contracts --write-docs docs/contracts.md

.PHONY: lock
lock: .lock-venv/.ready ## resolve requirements/dev.lock again (LOCK_FLAGS=--upgrade takes newer versions)
	@.lock-venv/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" $(LOCK_FLAGS) \
		--output-file requirements/dev.lock pyproject.toml requirements/dev.in
	@echo "requirements/dev.lock is resolved"

.PHONY: clean
clean: ## remove the environment, caches and build results
	@rm -rf .venv .lock-venv .pythons .bench-venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/dev.lock pyproject.toml
	@$(call need_python)
	@echo "Setting up .venv (once, about a minute) ..."
	@test -x $(BIN)/python || $(call make_venv,.venv)
	@$(BIN)/python $(PIP) install --require-hashes -r requirements/dev.lock
	@$(BIN)/python $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/.local: $(READY) requirements/local.txt
	@echo "Installing the engine of the local model ..."
	@$(BIN)/python $(PIP) install --require-hashes -r requirements/local.txt
	@touch $@

.lock-venv/.ready: Makefile
	@$(call need_python)
	@test -x .lock-venv/bin/python || $(call make_venv,.lock-venv)
	@.lock-venv/bin/python $(PIP) install $(UV)
	@touch $@

define need_python
command -v $(PYTHON) >/dev/null || { echo "No $(PYTHON) here. Install Python 3.11 or later, or run: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Backstay needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.11" >&2; exit 1; }
endef

define make_venv
$(PYTHON) -m venv $(1) || \
	{ rm -rf $(1); echo "$(PYTHON) cannot make a virtual environment. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
endef
