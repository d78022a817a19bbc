# Every target makes its own environment (.venv) first; a second run finds it ready and does nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
KILLS ?= 1000
FUZZ ?= --seconds 600
ROUNDS ?= 200
SCHEDULER ?= kube-scheduler
DECISIONS ?= 100000
APISERVER ?= kube-apiserver
STEPS ?= 50000

# Where this is set, each process that a test starts, and each worker of pytest, would compile whatever it imports again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install test mutants coverage faults fuzz kills node-kills robustness differential differential-api differential-kubectl differential-controllers day check package docs bench demo up clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

install: $(STAMP) ## Make the environment in .venv

test: install ## Run all tests
	$(BIN)/python -m pytest -n 3 --dist loadgroup -rsR --durations=25 --durations-min=4

faults: install ## Clusters and controllers under 1,000 seeds of faults each, in virtual time
	$(BIN)/bayplan faults --seeds 1000 -j 2
	$(BIN)/python -m tests.controllers.faults 1000

fuzz: install ## Requests that make no sense against a whole cluster for ten minutes; FUZZ="--seed N" makes them again
	$(BIN)/python -m tests.fuzz $(FUZZ)

kills: install ## Kill a cluster under load KILLS times (1000): nothing acknowledged is lost, nothing is applied twice
	$(BIN)/python -m tests.store.kills --store $(KILLS)
	$(BIN)/python -m tests.store.kills $(KILLS)

node-kills: install ## Kill kubelet and containerd of a real node while KILLS containers (1000) end: each end is told once, nothing is left
	$(BIN)/python -m tests.cluster.real_nodes.kills $(KILLS)

robustness: install ## Three API servers on three members of etcd while both fail: 1,000 seeds in virtual time, then ROUNDS (200) with real processes (root)
	$(BIN)/python -m tests.robustness.virtual --seeds 1000 -j 2
	$(BIN)/python -m tests.robustness.real --rounds $(ROUNDS)

differential: install ## DECISIONS (100000) of the scheduler program SCHEDULER compared with the library's on random clusters
	$(BIN)/python -m tests.differential "$(SCHEDULER)" --decisions $(DECISIONS)

differential-api: install ## STEPS (50000) of requests by chance answered by the program APISERVER (over an etcd) and by Bayplan: what differs, in classes
	$(BIN)/python -m tests.differential.api "$(APISERVER)" --steps $(STEPS)

differential-kubectl: install ## What KUBECTL prints for 400 commands against the program APISERVER (over an etcd) and against Bayplan
	$(BIN)/python -m tests.differential.kubectl "$(APISERVER)" $(if $(KUBECTL),--kubectl "$(KUBECTL)")

differential-controllers: install ## What the program CONTROLLERS, kube-controller-manager, makes of 71 scenarios, and what Bayplan's controllers make of them
	$(BIN)/python -m tests.differential.controllers "$(CONTROLLERS)"

day: install ## A virtual day of 100 churning nodes, twice: the traces must be equal byte for byte
	$(BIN)/python -m tests.simulation.day

mutants: install ## Flip comparisons and connectives in the pure packages: do their tests notice? MUTANTS="--sample 20"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	$(BIN)/python -m tools.mutants $(MUTANTS)

coverage: install ## Which lines the tests reach; TESTS=tests/store for some of them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[coverage]'
	$(BIN)/python -m pytest -n 2 --dist loadgroup --cov=bayplan --cov-report=term:skip-covered $(TESTS)

check: install ## Lint, types, import rules, dead code, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.check_edges
	$(BIN)/python -m tools.check_words
	$(BIN)/vulture
	$(BIN)/python -m tools.generate_api --check
	$(BIN)/python -m tools.generate_reference --check

package: install ## Build sdist and wheel, and check them in an environment of their own
	$(BIN)/python -m tools.check_package

docs: install ## Build the documentation as a site, in build/docs; links that lead nowhere are errors
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/sphinx-build --fail-on-warning --quiet -b html docs build/docs
	@echo "build/docs/index.html"

bench: install ## Measure; writes benchmarks/out/*.json and prints tables
	$(BIN)/python -m benchmarks

demo: install ## A throw-away cluster that shows scheduling live, then ends
	@$(BIN)/bayplan demo

up: install ## Run a cluster until Ctrl-C
	@$(BIN)/bayplan up

clean: ## Remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
