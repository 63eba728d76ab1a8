# Everything sets itself up: `make demo` and `make test` need Python, pip and a C++ compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src cpp -name '*.py' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.xz' \
                                -o -name '*.safetensors' -o -path '*/assets/*') \
           CMakeLists.txt pyproject.toml

.PHONY: demo test test-slow test-cpus test-all fuzz fuzz-native fuzz-python sanitize lint bench bench-quick clean

demo: $(VENV)/.installed
	$(BIN)/minrisk demo --report demo.html

# all that guards the product on a CPU; processes that outnumber cores would wait for each other
WORKERS ?= 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup
test: $(VENV)/.test
	$(PYTEST) -m "not slow"

# kills at random moments, a real language model, the experiment with all kinds of models
test-slow: $(VENV)/.test
	$(PYTEST) -m slow

# the neural and core tests with the instructions that other CPUs have
test-cpus: $(VENV)/.test
	$(BIN)/python tests/cpus.py

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest minrisk._native --allowlist tests/typing/stubtest.txt

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

# the native core by itself under sanitizers: memory and undefined behaviour, then data races
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

# beside the packages of the tests, whose types mypy follows
$(VENV)/.lint: $(VENV)/.test requirements/lint.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/lint.txt
	touch $@

clean:
	rm -rf $(VENV) build dist
