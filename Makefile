# Everything sets itself up: `make demo` and `make test` need Python, pip and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
SOURCES := $(shell find src cpp -name '*.py' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.xz' \
                                -o -name '*.safetensors' -o -path '*/assets/*') \
           CMakeLists.txt pyproject.toml

# Exact versions of all packages, also where pip builds a wheel apart; `make LOCK=` takes the newest.
LOCK ?= requirements/lock.txt
export PIP_CONSTRAINT := $(LOCK)
export PIP_BUILD_CONSTRAINT := $(LOCK)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-core test-slow test-cpus test-newest test-oldest test-integrations integrations \
        test-all dev names lock resolve fuzz fuzz-native fuzz-python sanitize lint types bench \
        bench-quick bench-all docs docs-links absolute-links dist wheels clean

demo: $(VENV)/.installed
	$(BIN)/minrisk demo --report demo.html

# all that guards the product on a CPU; one process more than two cores, for tests wait a lot: for
# a Ray cluster, for servers, for commands in processes of their own
WORKERS ?= 3
# compiled tests are kept for the next run, also where PYTHONDONTWRITEBYTECODE is set
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest \
    -n $(WORKERS) --dist loadscope --no-loadscope-reorder
test: $(VENV)/.test
	$(PYTEST) -m "not slow"

# those that need no extras, for other systems and Pythons
test-core: $(VENV)/.core
	$(BIN)/python -m pytest @tests/core.txt

# kills at random moments, a real language model, the experiment with all kinds of models
test-slow: $(VENV)/.test
	$(PYTEST) -m slow

# the neural and core tests with the instructions that other CPUs have
test-cpus: $(VENV)/.test
	$(BIN)/python tests/cpus.py

# the same with the newest packages, then with the oldest that pyproject.toml allows, in environments
# of their own; both with the torch of requirements/torch.txt, where TORCH= does not say otherwise
TORCH ?= -r requirements/torch.txt
test-newest:
	rm -rf .venv-newest
	$(MAKE) VENV=.venv-newest LOCK= test || { .venv-newest/bin/python tools/newest.py; exit 1; }
test-oldest:
	$(MAKE) VENV=.venv-oldest-core LOCK=requirements/oldest-core.txt test-core
	$(MAKE) VENV=.venv-oldest LOCK=requirements/oldest.txt test

# the integrations with the newest frameworks, which need older packages than the lock has, and DSPy
# older ones than the others
test-integrations:
	rm -rf .venv-integrations .venv-dspy
	$(MAKE) VENV=.venv-integrations LOCK= integrations \
	    NEEDS='minrisk[inspect-ai,langchain,lm-eval,serve] langchain-openai openai'
	$(MAKE) VENV=.venv-dspy LOCK= integrations NEEDS='minrisk[dspy,serve]'

integrations: $(VENV)/.installed requirements/core.txt
	$(PIP) $(NEEDS) -r requirements/core.txt
	$(BIN)/python -m pytest -W ignore tests/integrations  # warnings of the frameworks' own packages

# to work on minrisk: a changed Python file is live, a changed header is compiled at the next import
dev:
	$(MAKE) VENV=.venv-dev .venv-dev/.dev

# what editors and type checkers read of the registry, and the figure of the packages, written anew
names: $(VENV)/.installed
	PYTHONPATH=src $(BIN)/python tools/names.py
	$(BIN)/python tools/packages.py

# requirements/lock.txt and oldest.txt anew
lock: $(VENV)/.lock-tools
	$(BIN)/python tools/lock.py

# whether minrisk[all] can be installed beside the newest of other packages; installs nothing
resolve: $(VENV)/.lock-tools
	$(BIN)/python tools/resolve.py --write

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/python -m mypy.stubtest minrisk._native --allowlist tests/typing/stubtest.txt

# the types of all public names, by pyright, which needs Node.js or a network
types: $(VENV)/.lint
	$(BIN)/python tools/public_types.py

# random inputs, SECONDS for each target: what is in Python, all options among it, then the native
# core with libFuzzer, which needs clang
SECONDS ?= 60
fuzz: fuzz-python fuzz-native

fuzz-native:
	$(MAKE) -C tests/fuzz/native fuzz SECONDS=$(SECONDS)

fuzz-python: $(VENV)/.test
	FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/fuzz

test-all: test test-slow test-cpus sanitize fuzz

bench: $(VENV)/.test
	$(BIN)/python benchmarks/chrf/run.py
	$(BIN)/python benchmarks/bleu/run.py

# two minutes, with the bundled samples; benchmarks/quick/compare.py compares two such files
bench-quick: $(VENV)/.test
	$(BIN)/python benchmarks/quick/run.py --output bench-quick.json

# all benchmarks and experiments that need no GPU: hours; continues where it was interrupted.
# OPUS= is OPUS-MT en-fr as a folder; the research data are looked for in MINRISK_DATA
OPUS ?=
bench-all: $(VENV)/.test
	$(BIN)/python benchmarks/all.py $(if $(OPUS),--opus $(OPUS))

# the manual in build/docs/html; a warning is an error, and so is a link inside it that leads nowhere
SPHINX := $(BIN)/python -m sphinx -E -W --keep-going -d build/docs/doctrees
docs: $(VENV)/.docs
	$(SPHINX) -b html docs build/docs/html

# links to other sites, which needs a network
docs-links: $(VENV)/.docs
	$(SPHINX) -b linkcheck docs build/docs/links

# the native core by itself under sanitizers: memory and undefined behaviour, then data races
sanitize:
	$(MAKE) -C tests/native sanitize

# for a release: absolute links in README.md, and addresses in pyproject.toml, which change these
# files; REPOSITORY=https://... TAG=v1.2.3
absolute-links:
	$(PYTHON) tools/absolute_links.py $(REPOSITORY) $(TAG)

# sdist and wheels in dist/, checked and tested with every PYTHONS (those that are found)
dist: $(VENV)/.dist
	$(BIN)/python tools/dist.py $(PYTHONS)

# the wheels of a release for this system; on Linux in containers, which need Docker or Podman
wheels: $(VENV)/.dist
	$(BIN)/python -m cibuildwheel --output-dir dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip

# not in the environment of `make dev`, where it would take the place of the editable installation
$(VENV)/.installed: $(SOURCES) $(LOCK) | $(BIN)/python
	test -e $(VENV)/.dev || $(PIP) .[zst]
	touch $@

$(VENV)/.core: $(VENV)/.installed requirements/core.txt
	$(PIP) -r requirements/core.txt
	touch $@

$(VENV)/.test: $(VENV)/.installed requirements/core.txt requirements/test.txt requirements/torch.txt
	$(PIP) minrisk[all] -r requirements/test.txt $(TORCH)
	touch $@

$(VENV)/.dev: pyproject.toml CMakeLists.txt requirements/build.txt requirements/core.txt \
              requirements/test.txt requirements/lint.txt $(LOCK) | $(BIN)/python
	$(PIP) -r requirements/build.txt -r requirements/lint.txt -r requirements/test.txt $(TORCH)
	PIP_BUILD_CONSTRAINT= $(PIP) --no-build-isolation -C editable.rebuild=true -C editable.verbose=false -C build-dir=build/dev \
	    -e .[all] $(TORCH)
	touch $@

$(VENV)/.lint $(VENV)/.docs: $(VENV)/.%: requirements/%.txt $(VENV)/.installed
	$(PIP) -r $<
	touch $@

$(VENV)/.dist $(VENV)/.lock-tools: $(VENV)/.%: requirements/%.txt $(LOCK) | $(BIN)/python
	$(PIP) -r $<
	touch $@

clean:
	rm -rf $(VENV) build dist
