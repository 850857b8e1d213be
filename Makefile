# Everything that is done with this repository, by name.  `make` alone lists it.
#
# The virtual environment is made on first use and again whenever pyproject.toml changes (.ci/venv says how).

PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
PORT    ?= 9092
SECONDS ?= 300
CYCLES  ?= 500
CUTS    ?= 100
SOAK    ?= 3600
ARGS    ?=

.DEFAULT_GOAL := help
.PHONY: help run check test bench matrix fuzz torture docs lint venv venv-dev clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

run: venv  ## start the broker on 127.0.0.1:9092 with its data in ./data
	@exec $(BIN)/broker-lite serve --listen 127.0.0.1:$(PORT) --data ./data $(ARGS)

check: venv-dev  ## lint, types and unit tests
	@$(BIN)/python -m tests.support.parts check

test: venv-dev  ## everything, with the time of each part
	@$(BIN)/python -m tests.support.parts all

bench: venv-dev  ## measure against Apache Kafka; QUICK=1 takes five minutes, ARGS are for `python -m bench`
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(ARGS)

matrix: venv-dev  ## every client of the matrix, also those that take minutes to install, and docs/clients.md anew
	@BROKER_LITE_HEAVY_CLIENTS=1 $(BIN)/python -m tests.clients.roster
	@BROKER_LITE_HEAVY_CLIENTS=1 $(BIN)/python -m pytest -q tests/clients --clients-table docs/clients.md $(ARGS)
	@BROKER_LITE_HEAVY_CLIENTS=1 BROKER_LITE_SPARK_IMAGE=1 $(BIN)/python -m pytest -q tests/pipeline/test_newest.py tests/containers/test_spark.py

fuzz: venv-dev  ## damaged requests for SECONDS (300) instead of the few that the unit tests take
	@BROKER_LITE_FUZZ_SECONDS=$(SECONDS) $(BIN)/python -m pytest -q -o timeout=0 tests/wire/test_fuzz.py tests/fuzz $(ARGS)

torture: venv-dev  ## every crash sweep whole, CYCLES (500) kills under load, CUTS (100) of the power for each file system, SOAK (3600) seconds of mixed load in each mode
	@BROKER_LITE_TORTURE=10 BROKER_LITE_CYCLES=$(CYCLES) BROKER_LITE_CUTS=$(CUTS) BROKER_LITE_LOAD=1 BROKER_LITE_FUZZ_REQUESTS=1000000 STRACE_KILLS=50 \
		BROKER_LITE_STORM=600 BROKER_LITE_SOAK_SECONDS=$(SOAK) SECONDS=600 \
		$(BIN)/python -m pytest -q -s -o timeout=0 tests/fuzz/test_live.py tests/server/test_load.py tests/amplification \
		tests/crash tests/torture tests/log/test_compaction_model.py \
		tests/transactions/test_crash_sweep.py tests/transactions/test_strace.py \
		tests/transactions/test_storm.py tests/transactions/test_workload.py \
		tests/pipeline/test_archive_kills.py $(ARGS)

docs: venv-dev  ## bring the generated tables of README.md and docs/ up to date
	@$(BIN)/python -m tests.support.generated

lint: venv-dev  ## lint and types alone
	@$(BIN)/python -m tests.support.parts lint

# Compiled ahead, the package starts in half the time where Python may not write its byte code itself.
venv:
	@PYTHON=$(PYTHON) .ci/venv $(VENV) run
	@$(BIN)/python -m compileall -q broker_lite

venv-dev:
	@PYTHON=$(PYTHON) .ci/venv $(VENV) dev
	@$(BIN)/python -m compileall -q broker_lite

clean:  ## remove what the other targets made, except ./data
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
