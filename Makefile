# `make serve` and `make test` install into .venv first, and again if setup.cfg changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AZURITE := $(VENV)/azurite
PRETTIER := npx --yes prettier@3.10.1
WEB_FILES := 'scraper_service/web/static/*.{js,css,html}' 'scraper_service/web/static/screens/*.js'
# Three processes for each of two processors: half of the time of a test is waiting.
TESTS := $(BIN)/python -m pytest -n 6 --dist worksteal
# The tests start hundreds of processes: without cached bytecode, each one would compile
# all modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help compat serve test test-all test-rest soak soak-monitors lint lint-web format format-web docs docs-site bench bench-quality web-libraries egg test-deploy clean

help:
	@echo "make serve   install, then serve on http://127.0.0.1:3002, data in ./data"
	@echo "make test    install, then run one test of every behaviour, in six minutes"
	@echo "make test-all  run all tests: also kills in series, second databases, long waits"
	@echo "make test-rest  run what test-all runs beyond test"
	@echo "make soak    run the slow tests: 200 kills, database restarts, networks that fail, 1,000 renderings"
	@echo "make soak-monitors  40 monitors, two services, 40 kills"
	@echo "make lint    check format, lint and types"
	@echo "make format  format, and apply automatic lint fixes"
	@echo "make lint-web, make format-web  the same for the files of the web page, with npx"
	@echo "make docs    write docs/reference/configuration.md and docs/reference/options.md"
	@echo "make docs-site  make a site of the documentation in build/docs-site"
	@echo "make bench   measure latency and throughput, with other crawlers for comparison"
	@echo "make bench-quality  measure content, Markdown, metadata, PDF and extraction"
	@echo "make compat  call every method of the public clients, and print a table"
	@echo "make egg     build the egg for a scrapyd without the package"
	@echo "make test-deploy  build and start packages and image without Docker, and store files in Azurite; root only, minutes"
	@echo "make web-libraries  copy the libraries of the web page from their npm packages"
	@echo "make clean   remove .venv and build files; keep ./data"

serve: $(VENV)/.installed
	$(BIN)/scraper-service serve $(if $(wildcard .env),--env-file .env) $(ARGS)

test: $(VENV)/.test-compiled
	$(TESTS) -m "not slow and not rest" $(ARGS)

test-rest: $(VENV)/.test-compiled
	$(TESTS) -m "rest and not slow" $(ARGS)

# One run: the tests that wait leave the processors to the others.
test-all: $(VENV)/.test-compiled
	$(TESTS) -m "not slow" $(ARGS)

soak: $(VENV)/.test-installed
	CRASH_KILLS=200 $(BIN)/python -m pytest tests/process/test_crash.py $(ARGS)
	BROWSER_RENDERS=1000 $(BIN)/python -m pytest tests/browser/test_soak.py $(ARGS)
	$(BIN)/python -m pytest -m slow $(ARGS)

soak-monitors: $(VENV)/.test-installed
	MONITOR_KILLS=40 $(BIN)/python -m pytest tests/process/test_monitor_crash.py $(ARGS)

lint: $(VENV)/.test-installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	ln -sfn ../spiders scraper_service/spiders  # mypy looks for subpackages only there
	$(BIN)/mypy

format: $(VENV)/.test-installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint-web:
	$(PRETTIER) --check $(WEB_FILES)

format-web:
	$(PRETTIER) --write $(WEB_FILES)

docs: $(VENV)/.installed
	$(BIN)/python -m tools.configuration
	$(BIN)/python -m tools.option_reference

docs-site: $(VENV)/docs/.installed
	cd deploy/docs-site && NO_MKDOCS_2_WARNING=1 $(CURDIR)/$(VENV)/docs/bin/mkdocs build --strict

bench: $(VENV)/.bench-installed
	$(BIN)/python -m tools.bench.scrape $(ARGS)
	$(BIN)/python -m tools.bench.crawl $(ARGS)
	$(BIN)/python -m tools.bench.stages $(ARGS)
	$(BIN)/python -m tools.bench.sitemap $(ARGS)
	$(BIN)/python -m tools.bench.pdf $(ARGS)
	$(BIN)/python -m tools.bench.frontier $(ARGS)
	$(BIN)/python -m tools.bench.watch $(ARGS)
	$(BIN)/python -m tools.bench.map $(ARGS)
	$(BIN)/python -m tools.bench.sentences $(ARGS)
	$(BIN)/python -m tools.bench.search $(ARGS)
	$(BIN)/python -m tools.bench.scrapyd $(ARGS)
	$(BIN)/python -m tools.bench.scale $(ARGS)
	$(BIN)/python -m tools.bench.browser $(ARGS)
	$(BIN)/python -m tools.bench.exports $(ARGS)

compat: $(VENV)/.test-installed
	$(BIN)/python -m tests.compat $(ARGS)

egg: $(VENV)/.test-installed
	rm -rf build
	$(BIN)/python -W ignore setup.py -q bdist_egg
	@ls dist/*.egg

test-deploy: $(VENV)/.test-installed
	npm install --silent --no-audit --no-fund --prefix $(AZURITE) azurite@3
	PATH="$(CURDIR)/$(AZURITE)/node_modules/.bin:$$PATH" \
	    $(BIN)/python -m pytest tests/storage/test_object_storage.py tests/browser/test_object_storage.py
	$(BIN)/python -m pytest -m "slow or not slow" tests/repository/test_board.py tests/repository/test_deploy.py
	$(BIN)/python -m tests.support.release
	$(BIN)/python -m tests.support.image $(ARGS)

bench-quality: $(VENV)/.test-installed
	$(BIN)/python -m tools.bench.quality $(ARGS)
	$(BIN)/python -m tools.bench.writers --save $(ARGS)
	$(BIN)/python -m tools.bench.extraction

web-libraries: $(VENV)/.installed
	$(BIN)/python -m tools.web_libraries

clean:
	rm -rf $(VENV) build *.egg-info

COMPILED := $(wildcard scraper_service/content/passes/*.p[xy]*)
SOURCES := setup.cfg constraints.txt setup.py pyproject.toml $(COMPILED)
# constraints.txt has the versions that the tests passed with; setup.cfg allows others.
INSTALL := @$(PYTHON) tools/install.py $(VENV) -c constraints.txt -e

$(VENV)/.installed: $(SOURCES)
	$(INSTALL) '.[browser]'
	@touch $@

# One installation with all extras: each installation compiles the package again.
$(VENV)/.test-installed: $(SOURCES)
	$(INSTALL) '.[browser,test]'
	@touch $(VENV)/.installed $@

# Else each of the processes that run tests would compile all modules.
$(VENV)/.test-compiled: $(VENV)/.test-installed
	-@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1
	touch $@

$(VENV)/docs/.installed: deploy/docs-site/requirements.txt
	@$(PYTHON) tools/install.py $(VENV)/docs -r deploy/docs-site/requirements.txt
	@touch $@

$(VENV)/.bench-installed: $(VENV)/.test-installed
	$(INSTALL) '.[bench]'
	@touch $@
