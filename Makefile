# Everything sets itself up: `make demo` and `make test` need Python, pip and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src cpp -name '*.py' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.xz' \
                                -o -name '*.safetensors' -o -path '*/assets/*') \
           CMakeLists.txt pyproject.toml

.PHONY: demo test test-cpus lint bench sanitize clean

demo: $(VENV)/.installed
	$(BIN)/minrisk demo --report demo.html

test: $(VENV)/.test
	$(BIN)/python -m pytest

# the neural and core tests with the instructions that other CPUs have
test-cpus: $(VENV)/.test
	$(BIN)/python tests/cpus.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/mypy

# random inputs for what is in Python, SECONDS for each target
.PHONY: fuzz-python
fuzz-python: SECONDS ?= 60
fuzz-python: $(VENV)/.test
	FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/fuzz

bench: $(VENV)/.test
	$(BIN)/python benchmarks/chrf/run.py
	$(BIN)/python benchmarks/bleu/run.py

# the native core by itself under sanitizers: memory and undefined behaviour, then data races
sanitize:
	$(MAKE) -C tests/native sanitize

# random inputs, SECONDS for each target: the native core with libFuzzer, then what is in Python
.PHONY: fuzz
fuzz: SECONDS ?= 60
fuzz: $(VENV)/.test
	$(MAKE) -C tests/fuzz/native fuzz SECONDS=$(SECONDS)
ifneq ($(wildcard tests/fuzz/test_*.py),)
	FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/fuzz
endif

.PHONY: test-all
test-all: test test-cpus sanitize fuzz

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check .[zst]
	touch $@

$(VENV)/.test: $(VENV)/.installed requirements/test.txt requirements/constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements/test.txt -c requirements/constraints.txt
	touch $@

# beside the packages of the tests, whose types mypy follows
$(VENV)/.lint: $(VENV)/.test requirements/lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lint.txt
	touch $@

clean:
	rm -rf $(VENV) build dist
