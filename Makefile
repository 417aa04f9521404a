# Every command of the project; `make` lists them.
.DEFAULT_GOAL := help
.PHONY: servers $(shell sed -n 's/^\([a-z-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

bin := .venv/bin
python := $(bin)/python
ready := .venv/ready
export PYTHON

N ?= 1000
TESTS ?= tests
DEMO ?= $(bin)/headwater demo
TEST_OPTIONS ?=
BENCH_OPTIONS ?=
TORTURE_OPTIONS ?=
MINUTES ?= 60
FUZZ_OPTIONS ?=
MUTANTS_OPTIONS ?=
MATRIX_OPTIONS ?=
SOAK_OPTIONS ?= --json soak.json --chart docs/pictures/soak.svg
COMMAND ?= make test
MACHINE_OPTIONS ?=

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(ready) ## make .venv from the lock and see to a Java for Spark

$(ready): requirements.lock pyproject.toml tools/setup
	@tools/setup
	@touch $@

demo: setup ## a shop with customers, captured, in views, in the console; break it and watch
	@$(DEMO)

servers:
	@tools/test_servers

test: setup servers ## run every test, or some: make test TESTS=tests/unit TEST_OPTIONS=-x
	$(bin)/pytest -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder $(TEST_OPTIONS) $(TESTS)

demo-pictures: setup servers ## make the pictures of README.md from a demo that runs: make demo beside it
	PYTHONPATH=. $(python) -m tools.demo_pictures

pictures: setup servers ## make the pictures of the console in docs/pictures/console
	PYTHONPATH=. $(python) tools/screenshots.py

check: setup ## check format, style, types and the layers
	$(bin)/ruff format --check
	$(bin)/ruff check
	$(bin)/mypy
	$(bin)/lint-imports --no-logo

bench: bench-log bench-engine bench-capture bench-server bench-sinks bench-demo bench-time bench-joins ## run every benchmark

bench-log: setup ## measure the log
	$(python) bench/log.py $(BENCH_OPTIONS)

bench-kafka: setup ## measure both logs, the embedded one and the one on Kafka, and Kafka's own tools
	PYTHONPATH=. $(python) -m bench.kafka $(BENCH_OPTIONS)

bench-engine: setup ## measure how fast views are kept up to date
	$(python) -m bench.engine $(BENCH_OPTIONS)

bench-capture: setup ## measure capture of PostgreSQL, and Debezium's engine on the same changes
	$(python) bench/capture.py $(BENCH_OPTIONS)

bench-server: setup ## measure the server: appends, rows by key, followers
	$(python) -m bench.server $(BENCH_OPTIONS)

bench-time: setup ## measure what a tick of the clock costs, by the number of rows that are kept
	$(python) -m bench.ticks $(BENCH_OPTIONS)

bench-joins: setup ## measure what a small batch costs a join in time, by the number of rows of its key
	$(python) -m bench.joins_in_time $(BENCH_OPTIONS)

bench-sinks: setup servers ## measure sinks: first content, changes, commit to visible, each against its target's floor
	PYTHONPATH=. $(python) -m bench.sinks $(BENCH_OPTIONS)

bench-demo: setup ## measure the demo: to the first page, and from a commit in PostgreSQL to a subscriber
	$(python) -m bench.demo $(BENCH_OPTIONS)

torture-alerts: setup ## kill senders of messages, mail and alerts N times each: make torture-alerts N=100
	HEADWATER_ALERT_KILLS=$(N) HEADWATER_CHANNEL_KILLS=$(N) $(bin)/pytest -q tests/alerts/test_kills.py tests/channels/test_kills.py

torture-capture: setup ## kill captures of PostgreSQL and its server N times: make torture-capture N=200
	PYTHONPATH=. $(python) tools/torture_capture.py --kills $(N) $(TORTURE_OPTIONS)

torture-lake: setup ## kill feeds of Parquet, Delta and Iceberg tables N times each: make torture-lake N=100
	PYTHONPATH=. $(python) tools/torture_lake.py --kills $(N) $(TORTURE_OPTIONS)

torture-log: setup ## kill writers of the log N times and look for lost records: make torture-log N=1000
	$(python) tools/torture_log.py --kills $(N) $(TORTURE_OPTIONS)

test-kafka: setup ## run all of the contract suite of logs on Apache Kafka, and kill Kafka N times: make test-kafka N=20
	HEADWATER_KAFKA=all HEADWATER_KILLS=$(N) $(bin)/pytest tests/contract tests/kafka -k kafka $(TEST_OPTIONS)

torture-sinks: setup servers ## kill sinks and their targets, N rounds for each target: make torture-sinks N=100
	PYTHONPATH=. $(python) tools/torture_sinks.py --rounds $(N) $(TORTURE_OPTIONS)

torture-run: setup ## do N things to a running application, and compare everything: make torture-run N=200
	PYTHONPATH=. $(python) tools/torture_run.py --faults $(N) $(TORTURE_OPTIONS)

fuzz-views: setup ## compare random views with raw Spark: make fuzz-views MINUTES=60 FUZZ_OPTIONS='--seed 7'
	PYTHONPATH=. $(python) -m tools.fuzz_views --minutes $(MINUTES) $(FUZZ_OPTIONS)

mutants: setup ## bring old bugs back, one by one, and see the fuzzer find each: make mutants MUTANTS_OPTIONS='--only 3 11'
	PYTHONPATH=. $(python) -m tools.mutants $(MUTANTS_OPTIONS)

soak: setup ## run 22 views at 200 commits/s, and tell what grows: make soak MINUTES=60
	PYTHONPATH=. $(python) -m tools.soak --minutes $(MINUTES) $(SOAK_OPTIONS)

matrix: setup ## compare views of every function, type and shape with raw Spark: make matrix MATRIX_OPTIONS='--only rank'
	PYTHONPATH=. $(python) -m tests.matrix $(MATRIX_OPTIONS)

fresh-machine: ## run make test, or another command, on a fresh Debian (as root): make fresh-machine COMMAND='make demo'
	@tools/fresh_machine $(MACHINE_OPTIONS) $(COMMAND)

lock: setup ## resolve pyproject.toml anew into requirements.lock
	$(bin)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
		--generate-hashes --no-emit-index-url --no-emit-find-links --extra dev \
		--custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml

clean: ## remove .venv and everything else that was made here
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
	find src tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
