# Wengert's everyday commands. `make` alone lists them.
#
# Each target installs what it needs into .venv and remembers that with a stamp, which a change of pyproject.toml makes stale.
#   PYTHON=python3.12   the interpreter a new .venv is made with
#   VENV=.venv-3.12     another environment than .venv
#   EXTRAS=oracle       further extras for the tests (several with commas): the libraries to compare with
#   JOBS=2              test processes
#   N=1000 SEED=0       how many random graphs (programs, files, kills) to fuzz with, and the first one's seed
#   BASE=HEAD CASES=    the commit to compare generated kernels with, and a regular expression for the cases

PYTHON ?= python3
EXTRAS ?=
JOBS   ?= 2
N      ?= 1000
SEED   ?= 0
PYTHONS ?= 3.11 3.12 3.13 3.14
BASE   ?= HEAD
CASES  ?=

comma := ,
VENV  ?= .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile

CORE_STAMP := $(VENV)/stamp-core
TRAIN_STAMP := $(VENV)/stamp-train
TEST_STAMP := $(VENV)/stamp-test$(if $(EXTRAS),-$(EXTRAS))
WHOLE_STAMP := $(VENV)/stamp-whole$(if $(EXTRAS),-$(EXTRAS))
LINT_STAMP := $(VENV)/stamp-lint
DOCS_STAMP := $(VENV)/stamp-docs

.DEFAULT_GOAL := help
.PHONY: help environment demo test test-all test-runtime test-pythons lint format docs docs-serve docs-update wheel bench bench-cpu gpu-check gpu-sanitize gpu-bench gpu-report soak soak-shapes sanitize fuzz programs fuzz-files kill-training replay clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

environment: $(WHOLE_STAMP)  ## install at once all that the commands below need

demo: $(TRAIN_STAMP)  ## train a small network on handwritten digits
	@$(BIN)/wengert train digits --model mlp

test: $(TEST_STAMP)  ## run the tests and the docstrings' examples (a few minutes)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --doctest-modules tests src

test-all: $(TEST_STAMP)  ## run every test, the slow ones too
	$(BIN)/python -m pytest -n $(JOBS) --doctest-modules tests src

APART := $(addprefix --ignore=tests/,$(addprefix runtime/test_,certificate.py invariant.py fits.py) \
	$(addprefix train/test_,ranks.py sharded.py kill.py))  # which no interpreter changes
test-runtime: $(TEST_STAMP)  ## run the tests of the runtime, of ownership and of training
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(APART) tests/runtime tests/train tests/honesty

test-pythons:  ## run all tests on every Python found among PYTHONS, each in .venv-<version>
	@for python in $$(.ci/pythons $(PYTHONS)); do \
	    version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "=== Python $$version: $$python"; \
	    $(MAKE) test-all VENV=.venv-$$version PYTHON=$$python || exit 1; \
	done

lint: $(LINT_STAMP)  ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases tests/backends/emulated.py # the emulated GPU has the protocol of the driver
	$(BIN)/lint-imports

format: $(LINT_STAMP)  ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS_STAMP)  ## build the documentation into site/, to open from disk
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "built: open $(CURDIR)/site/index.html in a browser, or run make docs-serve"

docs-serve: $(DOCS_STAMP)  ## serve the documentation at http://127.0.0.1:8000 and rebuild it as files change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --livereload --watch src/wengert --dev-addr 127.0.0.1:8000

docs-update: $(TEST_STAMP)  ## bring up to date what pages show: programs, tables, plots, pictures, lists
	$(BIN)/python docs/regenerate.py
	$(BIN)/python docs/benchmarks_page.py
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/how_to_index.py

wheel: $(CORE_STAMP)  ## build the wheel into dist/
	@rm -rf dist
	$(BIN)/python -m pip wheel -qq --no-deps --wheel-dir dist .

bench: $(TEST_STAMP)  ## measure the cost of recording (EXTRAS=oracle to compare)
	$(BIN)/python benchmarks/recording.py

bench-cpu: $(TEST_STAMP)  ## measure CPU steps beside PyTorch (EXTRAS=oracle; 30 minutes)
	$(BIN)/python benchmarks/cpu.py --json

soak: $(CORE_STAMP)  ## train 100,000 tiny steps and watch the memory
	$(BIN)/python benchmarks/soak.py

soak-shapes: $(CORE_STAMP)  ## compile a thousand shapes and watch memory and caches
	$(BIN)/python benchmarks/soak_shapes.py

gpu-check: $(TEST_STAMP)  ## run the tests that need a GPU (EXTRAS=cuda,cuda-math)
	$(BIN)/python -m pytest -n auto --dist worksteal -q -m "not alone" tests/gpu
	$(BIN)/python -m pytest -q -m alone tests/gpu

gpu-sanitize: $(TEST_STAMP)  ## watch every kernel with compute-sanitizer (EXTRAS=cuda)
	$(BIN)/python -m tests.gpu.sanitize --out benchmarks/results/sanitize-$$(date +%F).txt

gpu-bench: $(TEST_STAMP)  ## measure GPU steps beside PyTorch, which must be installed
	$(BIN)/python benchmarks/gpu.py --first --json
	$(BIN)/python benchmarks/gpu.py --json

gpu-report: $(CORE_STAMP)  ## write docs/cpu-gpu-report.html (EXTRAS=cuda,cuda-math)
	$(BIN)/wengert bench --out docs/cpu-gpu-report.html

fuzz: $(TEST_STAMP)  ## compile N random graphs from SEED on, against references
	$(BIN)/python -m tests.compiler.fuzz $(N) $(SEED)

MODE ?= all
AGAINST ?= references
programs: $(TEST_STAMP)  ## run N random programs of every MODE from SEED on, compiled (AGAINST=torch: in PyTorch)
	$(BIN)/python -m tests.programs --mode $(MODE) --count $(N) --seed $(SEED) --against $(AGAINST) --jobs $(JOBS)

SANITIZED := tests/kernels/test_c_kernels.py tests/kernels/test_convolution_rows.py tests/compiler/test_compiled_ops.py tests/compiler/test_random.py
sanitize: $(TEST_STAMP)  ## run the tests of C kernels with gcc's address and undefined-behaviour sanitizers
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 WENGERT_CACHE=$$(mktemp -d) \
	WENGERT_CC_FLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -g1" \
	$(BIN)/python -m pytest -q -s -p no:xdist -m "not slow" $(SANITIZED) # -s: a sanitizer's report is not captured

fuzz-files: $(TEST_STAMP)  ## load N damaged files from SEED on
	$(BIN)/python -m tests.fuzz_files $(N) $(SEED)

kill-training: $(TEST_STAMP)  ## kill trainings with -9, N times, and resume them
	$(BIN)/python -m tests.kill_training $(N) $(SEED)

replay: $(TEST_STAMP)  ## compare generated kernels with those of BASE=<commit>
	PYTHONPATH=src $(BIN)/python -m tests.replay $(BASE) --cases '$(CASES)'

clean:  ## remove the environments and everything built
	rm -rf $(VENV) .venv-3.* .venv-mpi-* build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# The environment, in the smallest steps that serve.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, such as PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(CORE_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert"
	@$(PIP) -e .
	@touch $@

$(TRAIN_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert[train]"
	@$(PIP) -e ".[train]"
	@touch $@

$(TEST_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert[test$(if $(EXTRAS),$(comma)$(EXTRAS))]"
	@$(PIP) -e ".[test$(if $(EXTRAS),$(comma)$(EXTRAS))]"
	@touch $@

$(WHOLE_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert[test,lint,docs$(if $(EXTRAS),$(comma)$(EXTRAS))]"
	@$(PIP) -e ".[test,lint,docs$(if $(EXTRAS),$(comma)$(EXTRAS))]"
	@touch $(CORE_STAMP) $(TRAIN_STAMP) $(TEST_STAMP) $(LINT_STAMP) $(DOCS_STAMP) $@

$(LINT_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert[lint]"
	@$(PIP) -e ".[lint]"
	@touch $@

$(DOCS_STAMP): pyproject.toml | $(BIN)/python
	@echo "installing wengert[docs]"
	@$(PIP) -e ".[docs]"
	@touch $@
