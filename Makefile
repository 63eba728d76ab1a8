# Everything sets itself up: `make demo` and `make test` need Python, pip and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src cpp -name '*.py' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.xz' \
                                -o -name '*.safetensors') \
           CMakeLists.txt pyproject.toml

.PHONY: demo test lint bench sanitize clean

demo: $(VENV)/.installed
	$(BIN)/minrisk demo

test: $(VENV)/.test
	$(BIN)/python -m pytest

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

# the native core by itself, under AddressSanitizer and UndefinedBehaviorSanitizer
sanitize:
	$(MAKE) -C tests/native sanitize

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(SOURCES) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check .[zst]
	touch $@

$(VENV)/.test: $(VENV)/.installed requirements/test.txt requirements/constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    -r requirements/test.txt -c requirements/constraints.txt
	touch $@

$(VENV)/.lint: $(VENV)/.installed requirements/lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lint.txt
	touch $@

clean:
	rm -rf $(VENV) build dist
