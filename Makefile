# Every target sets itself up: Python 3.11+ with venv, make and a C compiler are enough.
PYTHON ?= python3
BIN := .venv/bin
SEEDS ?= 15
OUT ?= results
PAPER_ARGS ?=
MINUTES ?= 30

.PHONY: paper test docs soak format lock clean

paper: .venv/ready  ## reproduce the paper: tables, figures, report
	$(BIN)/tessella paper --seeds $(SEEDS) --out $(OUT) $(PAPER_ARGS)

test: .venv/ready  ## everything that must hold: style, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder

docs: .venv/ready  ## the site, in build/site; a warning is an error
	$(BIN)/sphinx-build -q -W --keep-going -E docs build/site
	@echo build/site/index.html

soak: .venv/ready  ## random sweeps against exact oracles, for MINUTES
	$(BIN)/python -m soak --minutes $(MINUTES)

format: .venv/ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

lock:  ## refresh the pinned versions; needs uv
	uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
		--python-version 3.11 --extra dev pyproject.toml --output-file requirements.lock

clean:
	rm -rf .venv results build dist
