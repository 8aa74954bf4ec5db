# Everything a stranger types. `make run` and `make test` do all set-up themselves.

READY := .venv/.ready
CLASSES := .venv/.spark_classes
COMPILED := .venv/.compiled
PYTHON ?= python3
ROUNDS ?= 5
SEEDS ?= 1..2000
QUICK := tests/unit tests/docs tests/conformance --ignore tests/conformance/mongo \
  -k "not (mongo or s3 or guide or deaths or durability or commands)"
SPARK41 ?= 4.1.4

# Tests start hundreds of Python processes, and each would compile Shunter anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-quick test-spark41 setup check format bench simulate soak docs hashes release clean

run: $(READY)  ## the main job: a dispatcher, two workers, a few thousand jobs
	@.venv/bin/python examples/primes/run.py

test: $(READY) $(CLASSES) $(COMPILED)  ## all tests, eight files at a time, for most wait; in which order: tests/running_order.py
	@.venv/bin/python -m pytest -n 8 --dist loadfile --no-loadscope-reorder

test-quick: $(READY) $(COMPILED)  ## those without Spark, servers and kills, within a minute
	@.venv/bin/python -m pytest -n 4 --dist loadfile $(QUICK)

# PySpark 4.1 itself leaves sockets open, which 4.3 does not.
test-spark41: .venv-spark41/.ready  ## flows on the oldest PySpark that they run on, in a venv of its own
	@.venv-spark41/bin/python -m pytest -W ignore::ResourceWarning \
	  -W ignore::pytest.PytestUnraisableExceptionWarning tests/system/spark/test_parity.py \
	  tests/system/spark/test_batch_runs.py tests/system/spark/test_streaming_runs.py \
	  tests/system/spark/drivers/test_cluster.py tests/system/spark/drivers/test_memory.py

setup: $(READY)  ## leaves .venv/bin/shunter

check: $(READY)  ## format, lint, types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/mypy

format: $(READY)
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .

bench: $(READY)  ## prints ratios, writes bench/figures.json
	@.venv/bin/python -m bench

simulate: $(READY)  ## the whole system in one process under seeded faults: make simulate SEEDS=1..200
	@.venv/bin/python -m shunter.testing.simulation --seeds $(SEEDS)

soak: $(READY)  ## kills, partitions, and four times the examples, again and again: make soak ROUNDS=10
	@for round in $$(seq $(ROUNDS)); do echo "round $$round of $(ROUNDS)"; \
	  SHUNTER_TASKS=10000 SHUNTER_LONG=1 .venv/bin/python -m pytest --timeout 1200 tests/system/test_kills.py \
	    tests/system/test_partitions.py tests/system/test_no_master.py \
	    tests/system/test_limits.py tests/system/test_workflows.py tests/system/test_steps.py tests/system/simulation \
	    tests/system/udp/test_bad_weather.py tests/system/rerun tests/system/http/test_schemathesis.py \
	    tests/system/security/test_mutated_messages.py tests/unit tests/conformance tests/system/spark || exit 1; done

docs: $(READY)  ## rewrites the generated parts of docs/, and the board of Grafana
	@.venv/bin/python tools/write_docs.py
	@.venv/bin/python tools/write_board.py

hashes: .venv-release/.ready  ## pins anew with the hashes of the index, after requirements.txt has changed
	@.venv-release/bin/python tools/pin_hashes.py

release: $(READY) .venv-release/.ready  ## dist/: sources, wheel, SBOM and sums, tried in a fresh venv; uploads nothing
	@.venv-release/bin/python tools/release.py

clean:
	rm -rf .venv .venv-release .venv-spark41 .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(CLASSES): $(READY)  # Java starts in half the time; without it, tests only take longer
	@echo "an archive of Spark's classes, for the tests ..."
	@.venv/bin/python -m shunter.testing.quick_java .venv && touch $@ || true

$(COMPILED): $(READY)  # once, and not by each of four processes that begin at the same time
	@.venv/bin/python -m compileall -q -j 2 src || true
	@for part in tests/unit tests/system "tests/conformance tests/deploy tests/docs"; do \
	  .venv/bin/python -m pytest --collect-only -q $$part >/dev/null 2>&1 & done; wait
	@touch $@

.venv-spark41/.ready: requirements.txt requirements-dev.txt
	@echo "PySpark $(SPARK41) into .venv-spark41 ..."
	@$(PYTHON) -m venv .venv-spark41
	@.venv-spark41/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@.venv-spark41/bin/python -m pip install --quiet --disable-pip-version-check "pyspark==$(SPARK41)"
	@.venv-spark41/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv-release/.ready: requirements-release.txt
	@echo "what builds releases into .venv-release ..."
	@$(PYTHON) -m venv .venv-release
	@.venv-release/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-release.txt
	@touch $@

$(READY): requirements.txt requirements-dev.txt pyproject.toml tools/setup.sh
	@PYTHON=$(PYTHON) bash tools/setup.sh
	@touch $@
