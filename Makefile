# run    start the broker on 127.0.0.1:9092 with its data in ./data
# test   set up and run every test that needs only Python
# check  style, types, the arrows between packages, house rules
# bench  the benchmarks, against Apache Kafka where it can be had
# docs   write the generated pages again
# interop  the tests that need kcat, java and Kafka's jars, and the long ones
# lock   resolve the dependencies again (needs uv)

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes

.PHONY: help run test check bench docs interop lock clean
.DEFAULT_GOAL := help

help:
	@sed -n '/^# /!q; s/^# //p' Makefile

# The environment is made once; each stamp stands for one list of packages in it.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Barnabas needs Python 3.11 or later as python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime: requirements.lock | $(BIN)/python
	$(PIP) -r requirements.lock
	@touch $@

$(VENV)/development: requirements-dev.lock pyproject.toml | $(BIN)/python
	$(PIP) -r requirements-dev.lock
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
		--no-build-isolation --editable .
	@touch $@ $(VENV)/runtime

run: $(VENV)/runtime
	@exec $(BIN)/python -m client.cli serve --data ./data

test: $(VENV)/development
	$(BIN)/python -m pytest -m "not interop and not slow"

interop: $(VENV)/development
	$(BIN)/python -m pytest -m "interop or slow"

check: $(VENV)/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py

bench: $(VENV)/development
	$(BIN)/python -m benchmarks

docs: $(VENV)/development
	$(BIN)/python -m config.render page docs/configuration.md
	$(BIN)/python -m config.render sample docs/server.properties

UV := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url
lock:
	$(UV) --output-file requirements.lock pyproject.toml
	$(UV) --extra dev --constraint requirements.lock --output-file requirements-dev.lock \
		pyproject.toml
	sed -i '1i # Pinned by hash for every platform and Python. Written by `make lock`.' \
		requirements.lock requirements-dev.lock

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
