# The first target run creates .venv and installs what is needed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# The tests write machines of thousands of small files, which memory takes best.
FAST := $(shell [ -w /dev/shm ] && echo /dev/shm || echo $${TMPDIR:-/tmp})
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test check bench build format templates schema pictures docs man lock clean

help:  ## these targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	@touch $@

demo: $(INSTALLED)  ## the topology of a DGX H100, a configuration made for it and verified against it
	@$(BIN)/python -m tests.demo $(BIN)/numalign

test: $(INSTALLED)  ## every test
	TMPDIR=$(FAST) $(BIN)/python -m pytest -n auto

check: $(INSTALLED)  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## whole processes beside lstopo and bare Python, pods admitted per second, nodes of a fleet
	$(BIN)/python -m benchmarks.inspect
	$(BIN)/python -m benchmarks.verify
	$(BIN)/python -m benchmarks.predict
	$(BIN)/python -m benchmarks.admission
	$(BIN)/python -m benchmarks.render
	$(BIN)/python -m benchmarks.fleet
	if [ -e dist/numalign.pyz ]; then $(BIN)/python -m benchmarks.pyz; fi

build: $(INSTALLED)  ## wheel, sdist, numalign.pyz and its SBOM in dist/
	$(BIN)/python -m release dist

LOCKED := .venv/bin/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-header --no-annotate \
  --no-emit-index-url --upgrade
lock: $(INSTALLED)  ## requirements.lock anew: what the image and numalign.pyz are made of
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCKED) pyproject.toml --output-file requirements.lock
	sed -n 's/^requires = \["\(hatchling.*\)"\]/\1/p' pyproject.toml | $(LOCKED) - --output-file requirements-build.lock

templates: $(INSTALLED)  ## the templates as Python, after a change in templates/
	$(BIN)/python -m numalign.render.precompile

schema: $(INSTALLED)  ## docs/schema from the model
	$(BIN)/python -m numalign.schema docs/schema

pictures: $(INSTALLED)  ## docs/images as the commands draw them
	$(BIN)/python -m tests.docs_pictures docs/images

docs: $(INSTALLED)  ## the documentation as a site: site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --site-dir site

man: $(INSTALLED)  ## docs/man from the commands' help
	$(BIN)/python -m numalign.manual docs/man

clean:
	rm -rf .venv dist site
