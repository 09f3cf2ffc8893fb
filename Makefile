# Everything that is done with this repository. Needs git, make, a C compiler (benchmarks) and Python >= 3.10 with venv.
# uv is used where there is one, for speed: the same locked files with the same hashes go in either way.

PYTHON ?= python3
UV     ?= $(shell command -v uv 2>/dev/null)
CONFIG ?=
ROOT   ?=
ARGS   ?=

VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
DEV    := $(VENV)/ready-dev

# Another interpreter than the one that .venv was made with was asked for: make it anew.
ifneq ($(origin PYTHON),file)
  ifneq ($(shell cat $(READY) 2>/dev/null),$(PYTHON))
    .PHONY: $(READY)
  endif
endif

export UV_PYTHON_DOWNLOADS := never
export PIP_DISABLE_PIP_VERSION_CHECK := 1

ifneq ($(UV),)
  MAKE_VENV := $(UV) venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)
  INSTALL   := VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet
else
  MAKE_VENV := $(PYTHON) -m venv --clear $(VENV)
  INSTALL   := $(BIN)/python -m pip install -qq
endif
LOCKED := $(INSTALL) --require-hashes --no-build-isolation
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-emit-index-url \
          --no-emit-find-links --no-header

.DEFAULT_GOAL := help
.PHONY: help setup demo run test lint types format golden docs bench systemd-test lock ci clean

help:  ## show this list
	@echo "make TARGET [PYTHON=python3.12] [ARGS='more arguments for the tool']"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-15s %s\n", $$1, $$2 }'

setup: $(DEV)  ## make .venv with everything that is needed to run and to develop

demo: $(READY)  ## eight simulated GPUs, a daemon and its page (ARGS="--for 10s")
	$(BIN)/rocmwatch demo $(ARGS)

run: $(READY)  ## the daemon on this machine (CONFIG=file, ROOT=a simulated node)
	$(BIN)/rocmwatch run $(if $(ROOT),--root $(ROOT)) $(if $(CONFIG),--config $(CONFIG)) $(ARGS)

test: $(DEV)  ## the tests; what this machine cannot run is skipped, and said
	$(BIN)/python -m pytest $(ARGS)

lint: $(DEV)  ## ruff and the walls between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(DEV)  ## mypy --strict
	$(BIN)/mypy --strict

format: $(DEV)  ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: $(DEV)  ## rewrite tests/golden from what the code says now; look at the diff
	$(BIN)/python -m pytest -q --update-golden tests
	git --no-pager diff --stat -- tests/golden

docs: $(DEV)  ## rewrite docs/metrics.md and docs/config.schema.json from the code
	@mkdir -p build
	$(BIN)/python -m rocmwatch.serve.metrics_doc >build/metrics.md.new && mv build/metrics.md.new docs/metrics.md
	$(BIN)/rocmwatch check-config --schema >build/schema.new && mv build/schema.new docs/config.schema.json
	git --no-pager diff --stat -- docs

bench: $(DEV)  ## what it costs, as ratios to a C loop and to its peers (ARGS="--quick", ARGS="--only tick")
	$(BIN)/python benchmarks/run.py $(ARGS)

systemd-test: $(DEV)  ## boots a systemd and installs, runs and removes the real unit in it (root)
	tests/systemd/run $(ARGS)

lock:  ## resolve requirements/*.txt anew (needs uv)
	@test -n "$(UV)" || { echo "make lock needs uv: it resolves for every Python at once" >&2; exit 1; }
	$(COMPILE) $(ARGS) requirements/build.in -o requirements/build.txt
	$(COMPILE) $(ARGS) pyproject.toml -o requirements/runtime.txt
	$(COMPILE) $(ARGS) -c requirements/build.txt -c requirements/runtime.txt pyproject.toml --group dev -o requirements/dev.txt

ci:  ## what CI runs, installation of the distribution's packages included (root)
	.ci/run

clean:  ## remove .venv, caches and what was built
	rm -rf $(VENV) build dist .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements/build.txt requirements/runtime.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	  found=$$($(PYTHON) -V 2>&1) || found=missing; \
	  echo "rocmwatch needs Python 3.10 or newer, and '$(PYTHON)' is $$found: say make PYTHON=/path/to/python3" >&2; exit 1; }
	@test -n "$(UV)" || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' comes without venv: apt-get install python3-venv, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) -V)$(if $(UV), and uv)"
	@$(MAKE_VENV)
	@$(LOCKED) -r requirements/build.txt
	@$(LOCKED) -r requirements/runtime.txt
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@echo "$(PYTHON)" > $@

$(DEV): $(READY) requirements/dev.txt
	@echo "adding the development tools"
	@test -n "$(UV)" || $(BIN)/python -c 'import pip' 2>/dev/null || $(BIN)/python -m ensurepip >/dev/null # uv made it
	@$(LOCKED) -r requirements/dev.txt
	@touch $@
