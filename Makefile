PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO := build/demo
# What is compiled; the rest of the package is used where it lies.
TYPES := $(shell find src -name '*.pxd')
SOURCES := pyproject.toml setup.py $(TYPES) $(wildcard $(TYPES:.pxd=.py))

.PHONY: setup demo watch serve test spark-home check bench nightly mutants wheels coverage clean

setup: $(STAMP)

$(STAMP): $(SOURCES)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@$(BIN)/python -m sojourn.spark.java || $(BIN)/python -m pip install --quiet --group java
	@touch $@

# A shop's two days on Spark: half a million operations in, outcomes and a report out.
demo: setup
	@rm -rf $(DEMO)
	$(BIN)/sojourn sample $(DEMO)/shop --operations 500000 --seed 7
	$(BIN)/sojourn replay $(DEMO)/shop/operations $(DEMO)/shop/signals \
	    --cancels $(DEMO)/shop/cancels --engine spark --out $(DEMO)/answers --report

# The wheel and a purgatory under load, drawn as they go.
watch: setup
	$(BIN)/python -m examples.watch

# The service with some traffic, to look at: http://127.0.0.1:8080/
serve: setup
	$(BIN)/sojourn serve build/waits --sample-traffic

# The whole suite on the compiled build (where there is a C compiler), then the tests of compiled
# modules on the interpreted one. The second runs also if the first fails, but not after Ctrl-C.
test: export PYTHONDONTWRITEBYTECODE = # a hundred Pythons are started: they share what they compile
test: setup
	@$(MAKE) --no-print-directory -j2 check spark-home
	@trap 'exit 130' INT; status=0; \
	$(BIN)/python -m pytest -n auto || status=1; \
	SOJOURN_PURE=1 $(BIN)/python -m pytest -n auto -m 'both_builds and not nightly' \
	    $$($(BIN)/python -m tests.builds) || status=1; \
	exit $$status

# JVMs and Pythons of Spark's that start quickly, for tests; once.
spark-home: setup
	@$(BIN)/python -m tests.spark.home

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.durable
	$(BIN)/python -m benchmarks.service
	$(BIN)/python -m benchmarks.history

# What is published, built and tried in clean environments.
wheels:
	$(PYTHON) scripts/wheels.py

nightly: setup
	$(BIN)/python -m pytest -m nightly
	SOJOURN_PURE=1 $(BIN)/python -m pytest -m nightly

# Small changes to the sources, each of which some test should notice. Goes on where it ended.
mutants: setup
	$(BIN)/python -m scripts.mutation

# Which lines and branches of src/ the tests run, room by room; interpreted.
coverage: setup
	$(BIN)/python -m pip install --quiet --group coverage
	$(BIN)/python -m scripts.coverage_by_room

clean:
	rm -rf $(VENV) build dist src/*.egg-info
	find src -name '*.so' -delete
