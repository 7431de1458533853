# Every target sets up what it needs on a fresh machine; `make` prints this help.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
export RAY_AUTH_MODE ?= disabled
# as it was typed: neither make nor the shell may read a $ or a quote in a file's name
export QUICKSTART_INPUT := $(value INPUT)

.DEFAULT_GOAL := help
.PHONY: help setup kerberos quickstart test spark bench bench-spark bench-streams pipelines streams oracle oracle-streams sim traces deploy-test deploy-check faults fuzz fmt lint types imports check codec docs changelog release release-python release-test release-time clean console-pictures

help: ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml setup.py $(wildcard protocol/records/*.pyx protocol/records/*.pxi protocol/transport/*.pyx)
	@$(PYTHON) -c 'import sys; sys.exit("headrace needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/pip || { echo "making $(VENV), once: this takes a minute or two"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77" "cython>=3.1" wheel
	@echo "building and installing headrace and what it needs"
	@HEADRACE_REQUIRE_CODEC=1 PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --no-build-isolation --editable ".[test,dev]"
	@! command -v krb5-config >/dev/null || $(MAKE) --no-print-directory kerberos || echo "gssapi cannot be built here: the tests of GSSAPI are left out"
	@mkdir -p .typecheck && ln -sfn .. .typecheck/headrace
	@touch $(STAMP)

setup: $(STAMP) ## make .venv with everything, build the compiled codec

# Needs the headers of MIT Kerberos: everything else works without it.
kerberos:
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["kerberos"], sep="\n")' > $(VENV)/kerberos.txt
	@$(BIN)/python -m pip install --quiet --requirement $(VENV)/kerberos.txt

codec: ## rebuild the compiled codec
	@rm -f $(STAMP)
	@$(MAKE) --no-print-directory $(STAMP)

quickstart: $(STAMP) ## a file through a three-node cluster on Ray and back (INPUT=path)
	@$(BIN)/headrace quickstart $${QUICKSTART_INPUT:+--input "$$QUICKSTART_INPUT"}

# The tests of Spark wait for its processes half of the time: they run beside the others, and are shown after them.
# Spark gives a Python process ten seconds to start, so the others have a lower priority; a separate session
# is what counts where Linux shares cores between sessions (sched_autogroup_enabled). Ctrl-C does not reach it. Its
# environments are made before, since two Rays start with the first tests.
SESSION = $(BIN)/python -c 'import os, sys; os.setsid(); os.execvp(sys.argv[1], sys.argv[1:])'
test: $(STAMP) ## all tests, with those of Spark where there is a JDK (ARGS='tests/unit -k wheel': a part, without Spark)
	@mkdir -p build; spark=; code=0; \
	trap 'test -z "$$spark" || kill -TERM -$$spark 2>/dev/null || kill $$spark' INT TERM EXIT; \
	if test -n '$(if $(strip $(value ARGS)),part)'; then :; \
	elif command -v java >/dev/null || test -n "$$JAVA_HOME"; then \
	  $(MAKE) -s --no-print-directory -j2 .venv-spark35/.ready .venv-spark4/.ready || exit 1; \
	  $(SESSION) $(MAKE) --no-print-directory spark >build/spark.txt 2>&1 & spark=$$!; \
	elif test -n "$$HEADRACE_REQUIRE_KAFKA"; then echo "no java: the tests of Spark cannot run"; exit 1; \
	else echo "no java (Spark needs a JDK 17): the tests of Spark are left out"; fi; \
	$${spark:+nice -n 5} $(BIN)/python -m pytest -q -n auto --dist loadgroup $(ARGS) || code=$$?; \
	if test -n "$$spark"; then wait $$spark || code=$$?; spark=; cat build/spark.txt; fi; exit $$code

# Two lines of Spark, two environments: RayDP holds PySpark at 3.5, data sources in Python need 4.2. PySpark is made
# into a wheel here, for one installation: half a gigabyte of jars is not compressed again.
.venv-spark35/.ready: EXTRA := raydp
.venv-spark4/.ready: EXTRA := spark
.venv-spark35/.ready .venv-spark4/.ready: pyproject.toml | $(STAMP)
	@echo "making $(@D), once: this takes a minute"
	@test -x $(@D)/bin/python || $(PYTHON) -m venv --without-pip $(@D)
	@$(BIN)/python -c 'import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *project["optional-dependencies"][sys.argv[1]], "pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6", sep="\n")' $(EXTRA) > $(@D)/wanted.txt
	@printf '[bdist_wheel]\ncompression = stored\n' > $(@D)/wheels.cfg
	@DIST_EXTRA_CONFIG="$$PWD/$(@D)/wheels.cfg" $(BIN)/python -m pip --python $(@D)/bin/python install --quiet --no-compile --requirement $(@D)/wanted.txt
	@$(@D)/bin/python -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "headrace.pth").write_text(str(pathlib.Path(".typecheck").absolute()))'
	@touch $@

SPARK_TESTS = -m pytest -q -W default -p headrace.services.pytest_plugin
# Side by side: each has one session, and waits for its processes half of the time.
spark: .venv-spark35/.ready .venv-spark4/.ready ## the tests of Spark 3.5 with RayDP, and of Spark 4 (needs a JDK 17)
	@mkdir -p build; code=0; .venv-spark4/bin/python $(SPARK_TESTS) tests/spark4 >build/spark4.txt 2>&1 & spark4=$$!; \
	trap 'kill $$spark4' INT TERM; \
	.venv-spark35/bin/python $(SPARK_TESTS) tests/spark35 || code=$$?; \
	wait $$spark4 || code=$$?; cat build/spark4.txt; exit $$code

$(VENV)/.bench: $(STAMP)
	@echo "installing what benchmarks and oracle need: confluent-kafka, matplotlib, pyarrow"
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"], sep="\n")' > $@.txt
	@$(BIN)/python -m pip install --quiet --requirement $@.txt
	@touch $@

# of minutes, beside Kafka's own programs
ORACLE_TESTS = $(BIN)/python -m pytest -q -n 2 --dist loadgroup -m oracle tests/oracle
oracle: $(VENV)/.bench ## the same through real clients to Apache Kafka and headrace, writes docs/COMPATIBILITY.md (ONLY='kcat/*'; QUICK=1: a part, for CI)
	@$(BIN)/python tests/oracle/run.py $(if $(QUICK),--quick,$(if $(ONLY),--only '$(ONLY)',--write)) $(ARGS)
	$(if $(strip $(ONLY)$(ARGS)),,$(ORACLE_TESTS) -k 'not streams')

bench: $(VENV)/.bench ## beside Apache Kafka, an hour, writes docs/BENCHMARKS.md (QUICK=1: 9 min; ONLY=w1,w6)
	@$(BIN)/python -m headrace.benchmarks $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-spark: $(VENV)/.bench .venv-spark35/.ready .venv-spark4/.ready ## Spark and Ray Data beside Spark's Kafka connector, 20 min, writes docs/BENCHMARKS_SPARK.md (QUICK=1; ONLY=spark35-1,ray)
	@$(BIN)/python -m headrace.benchmarks.spark $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(ARGS)

.PHONY: bench-rest
bench-rest: $(VENV)/.bench ## REST produce rates and latency of tails, 1 min, prints them (docs/REST.md has results)
	@$(BIN)/python -m headrace.benchmarks.rest_io

bench-streams: $(VENV)/.bench .venv-quix/.ready ## headrace.stream beside Kafka Streams and Quix Streams, 40 min, writes docs/BENCHMARKS_STREAMS.md (QUICK=1; ONLY=count-few,join)
	@$(BIN)/python -m headrace.benchmarks.streams $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(ARGS)

.venv-quix/.ready: benchmarks/streams/quix_requirements.txt
	@echo "installing Quix Streams into .venv-quix"
	@$(PYTHON) -m venv .venv-quix
	@.venv-quix/bin/python -m pip install --quiet --requirement $<
	@touch $@

pipelines: $(STAMP) .venv-spark35/.ready .venv-spark4/.ready ## the pipelines of examples/pipelines over an access log (INPUT=path; needs a JDK 17)
	@$(BIN)/python examples/pipelines/run.py $${QUICKSTART_INPUT:+--input "$$QUICKSTART_INPUT"}

streams: $(STAMP) ## the examples of headrace.stream (INPUT=path: the access log of top_pages)
	@$${QUICKSTART_INPUT:+env HEADRACE_ACCESS_LOG="$$QUICKSTART_INPUT"} $(BIN)/python examples/streams/run.py

SEED ?= 1
COUNT ?= 1
sim: $(STAMP) ## simulate with virtual time (SEED=n replays one run; COUNT=m; JOBS=n; SIM=quorum|cluster|streams; TRACE=file)
	@$(BIN)/python tests/sim/run.py $(SEED) $(COUNT) $(if $(SIM),--sim $(SIM)) $(if $(JOBS),--jobs $(JOBS)) $(if $(TRACE),--trace $(TRACE))

oracle-streams: $(STAMP) ## random topologies in Kafka Streams and in headrace.stream, then one application taken over in turn (SEED=n; COUNT=m; ARGS=--show: topologies alone; needs a JDK and Maven)
	@$(BIN)/python tests/oracle/streams/run.py $(SEED) $(COUNT) $(ARGS)
	$(if $(strip $(ARGS)),,$(ORACLE_TESTS) -k streams)

console-pictures: $(STAMP) ## the pictures of docs/CONSOLE.md, by a headless Chromium
	@PYTHONPATH=tests/fakes $(BIN)/python tests/fakes/console_pictures.py

traces: $(STAMP) ## compare tests/traces with the code (REWRITE=1 records them again; review the difference)
	@$(BIN)/python tests/traces/record.py $(if $(REWRITE),--rewrite)

fuzz: $(STAMP) ## hostile bytes at both planes of a running cluster (SECONDS=60; SEED=n; KIND=valid|frames|requests|own|batches|logins)
	@$(BIN)/python tests/fuzz/run.py --seconds $(or $(SECONDS),60) $(if $(filter command line,$(origin SEED)),--seed $(SEED)) $(if $(KIND),--kind $(KIND)) $(if $(FIRST),--first $(FIRST))

deploy-test: $(STAMP) ## `ray up` over ssh on three machines of namespaces: kill, upgrade, drain, replace (root; 15 min)
	@$(BIN)/python -m pytest -q -n 0 -m deploy tests/deploy/test_ray_up_over_ssh.py $(ARGS)

# Helm is built from its Go module, which takes minutes, once; of the KubeRay operator only its schemas are read.
HELM_MODULE := helm.sh/helm/v3/cmd/helm@v3.16.4
KUBERAY_MODULE := github.com/ray-project/kuberay/ray-operator@v1.5.0
deploy-check: $(STAMP) ## the chart by Helm, the manifests by KubeRay's schemas (Go 1.22; REWRITE=1 renders the chart for the tests)
	@mkdir -p build && test -x build/helm || GOBIN=$$PWD/build go install $(HELM_MODULE)
	@GOFLAGS=-modcacherw go mod download $(KUBERAY_MODULE)
	@HEADRACE_HELM=$$PWD/build/helm REWRITE=$(REWRITE) \
	    HEADRACE_KUBERAY_CRDS=$$(go env GOMODCACHE)/$(KUBERAY_MODULE)/config/crd/bases \
	    $(BIN)/python -m pytest -q -n 0 -m deploy tests/deploy/test_kubernetes_tools.py $(ARGS)
	@$(BIN)/python -m pytest -q -n 0 tests/unit/deploy

faults: $(STAMP) ## kill, pause, cut off and wipe real processes (ONLY=s08 runs one scenario; JOBS=n; MINUTES=m for long ones)
	$(if $(MINUTES),HEADRACE_FAULT_MINUTES=$(MINUTES)) $(BIN)/python -m pytest -q -n $(or $(JOBS),2) --dist loadgroup -m "faults or not faults" tests/faults $(if $(ONLY),-k $(ONLY)) $(ARGS)

fmt: $(STAMP) ## format the code
	$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

lint: $(STAMP) ## ruff: rules and format
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy -p headrace

imports: $(STAMP) ## the import contracts
	$(BIN)/lint-imports

check: lint types imports test ## what CI runs

docs: $(STAMP) ## write what is made from code: docs/CLI.md, CONFIG.md, ERRORS.md, PROTOCOL.md, STATES.md, clients/sync
	$(BIN)/python -m headrace.services.reference
	$(BIN)/python -m headrace.services.cli_reference
	$(BIN)/python -m headrace.services.sync_clients

changelog: $(STAMP) ## move the fragments of changelog.d into CHANGELOG.md
	$(BIN)/python changelog.d/assemble.py

# Files of a release, from a tag: sdist, wheels, SBOM, checksums. See docs/RELEASING.md.
release: $(STAMP) ## set the version, assemble the changelog, tag, build dist/ (VERSION=1.2.3; ARGS='--partial': not all CPythons)
	@test -n '$(VERSION)' || { echo "make release VERSION=1.2.3"; exit 1; }
	@$(BIN)/python release/make_release.py '$(VERSION)' -- $(ARGS)

release-python: $(STAMP) ## a CPython that this machine lacks, for its wheel, from packages of Debian (CPYTHON=3.14)
	@$(BIN)/python release/unpack_python.py '$(CPYTHON)'

build/wheel/.ready: $(STAMP)
	@rm -rf $(@D)
	@$(BIN)/python release/build.py --out $(@D) --only $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	@touch $@

release-test: build/wheel/.ready ## a wheel with each extra in fresh environments, 10 min (HEAVY=1: torch and Spark as well)
	@$(BIN)/python release/try_extras.py build/wheel/*.whl $(if $(HEAVY),--heavy) $(ARGS)

release-time: build/wheel/.ready ## from pip install to a running cluster (ARGS=--cold: without pip's cache)
	@$(BIN)/python release/start_time.py build/wheel/*.whl $(ARGS)

clean: ## remove what the targets made
	rm -rf $(VENV) .venv-spark35 .venv-spark4 .venv-quix .typecheck build examples/kafka_clients/*/build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name '__pycache__' -prune -exec rm -rf {} +
	find protocol runtime services storage_node -name '*.so' -delete ; rm -f protocol/records/_batch.c protocol/transport/_multipart.c
