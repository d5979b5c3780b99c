# `make serve` and `make test` set up what they need, once, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The tests start hundreds of processes: each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help compat serve test soak lint format bench bench-quality egg test-deploy clean

help:
	@echo "make serve   install, then serve on http://127.0.0.1:3002, data in ./data"
	@echo "make test    install, then run the tests of a change"
	@echo "make soak    kills, preemptions, restarts of the database, 1,000 rendered pages"
	@echo "make lint    formatter, linter, types"
	@echo "make format  let the formatter and the linter mend what they can"
	@echo "make bench   latency and throughput beside a plain client and other crawlers"
	@echo "make bench-quality  content, Markdown, metadata, PDF and data by schemas"
	@echo "make compat  every method of the public clients, as a table"
	@echo "make egg     build the egg for a scrapyd that does not have the package"
	@echo "make test-deploy  build and start the image without Docker; as root, minutes"
	@echo "make clean   remove what was installed; ./data stays"

serve: $(VENV)/.installed
	$(BIN)/scraper-service serve $(ARGS)

test: $(VENV)/.test-installed
	$(BIN)/python -m pytest -n 3 --dist worksteal $(ARGS)

soak: $(VENV)/.test-installed
	CRASH_KILLS=200 $(BIN)/python -m pytest tests/test_crash.py $(ARGS)
	BROWSER_RENDERS=1000 $(BIN)/python -m pytest tests/browser/test_soak.py $(ARGS)
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.test-installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench-installed
	$(BIN)/python -m tools.bench.scrape $(ARGS)
	$(BIN)/python -m tools.bench.crawl $(ARGS)
	$(BIN)/python -m tools.bench.sitemap $(ARGS)
	$(BIN)/python -m tools.bench.pdf $(ARGS)
	$(BIN)/python -m tools.bench.frontier $(ARGS)
	$(BIN)/python -m tools.bench.watch $(ARGS)
	$(BIN)/python -m tools.bench.map $(ARGS)
	$(BIN)/python -m tools.bench.sentences $(ARGS)
	$(BIN)/python -m tools.bench.search $(ARGS)
	$(BIN)/python -m tools.bench.scrapyd $(ARGS)
	$(BIN)/python -m tools.bench.browser $(ARGS)

compat: $(VENV)/.test-installed
	$(BIN)/python -m tests.compat $(ARGS)

egg: $(VENV)/.test-installed
	rm -rf build
	$(BIN)/python -W ignore -c "import setuptools; setuptools.setup()" -q bdist_egg
	@ls dist/*.egg

test-deploy: $(VENV)/.test-installed
	$(BIN)/python -m tests.support.image $(ARGS)

bench-quality: $(VENV)/.test-installed
	$(BIN)/python -m tools.bench.quality $(ARGS)
	$(BIN)/python -m tools.bench.extraction

clean:
	rm -rf $(VENV) build *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; name it with make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

COMPILED := $(wildcard scraper_service/content/passes/*.p[xy]*)
SOURCES := setup.cfg setup.py pyproject.toml $(COMPILED)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -e

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	$(INSTALL) .
	touch $@

# All at once: the package is compiled whenever it is installed.
$(VENV)/.test-installed: $(SOURCES) | $(VENV)/bin/python
	$(INSTALL) '.[test]'
	touch $(VENV)/.installed $@

$(VENV)/.bench-installed: $(VENV)/.test-installed
	$(INSTALL) '.[bench]'
	touch $@
