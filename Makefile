# `make` lists the targets. The environments are made on first use; PYTHON=/path/to/python chooses their interpreter.
.NOTPARALLEL:
.DELETE_ON_ERROR:

PY := .venv/bin/python
OLDEST := .venv-oldest/bin/python
SETUP := pyproject.toml tools/make-venv

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{ printf "  make %-19s %s\n", $$1, $$2 }'

demo: .venv/.core ## Longley's data: OLS, BayesRidge and SpikeSlab; writes report-ridge.html and report-spikeslab.html
	@$(PY) -m pybayesridge demo --report report.html

# Of each parametrised test a case; all of them in continuous integration.
CASES = $(if $(PYBAYESRIDGE_THOROUGH),,--cases 1)

# R's tests take one core.
CHECKS := lint docs-check test-python test-oldest test-r+typecheck

test: ## lint, docs-check, test-python, test-oldest, test-r and typecheck; goes on to the end, then lists what failed
	@tools/test-all $(CHECKS)

test-ci: ## what continuous integration runs: test, with all cases for the newest versions and R, test-r-stable and test-old-processor
	@PYBAYESRIDGE_THOROUGH=1 tools/test-all $(CHECKS) test-r-stable test-old-processor

lint: .venv/.dev ## ruff: rules and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

typecheck: .venv/.dev ## mypy
	$(PY) -m mypy

test-python: .venv/.dev ## pytest with the newest dependencies
	OPENBLAS_NUM_THREADS=1 $(PY) -m pytest -q $(CASES) -n auto --dist worksteal -m 'not against_r'

# Versions change formulas, frames, tables, files and the command line, and the linear algebra beneath them: what the
# files directly in tests/ go through. test-old-processor runs all cases of all files with the oldest versions.
test-oldest: .venv-oldest/.installed ## pytest with the oldest supported dependencies: the files directly in tests/
	env -u PYBAYESRIDGE_THOROUGH OPENBLAS_NUM_THREADS=1 $(OLDEST) -m pytest -q --cases 1 -n auto --dist worksteal -m 'not against_r' -o cache_dir=.venv-oldest/.pytest_cache tests/test_*.py

test-r: ## the R package and the comparisons with R, with the R of this machine
	tools/test-r

test-r-stable: ## the same on Debian stable, with test-python, in a chroot where this machine is another
	tools/test-r-stable

test-processors: .venv/.dev .venv-oldest/.installed ## pytest as on other processors (tools/test-processors --help: some of them)
	tools/test-processors

test-old-processor: .venv/.dev .venv-oldest/.installed ## pytest as on a processor without AVX, one thread; all cases with the oldest versions
	@failed=0; \
	tools/test-processors Prescott --threads 1 --suite oldest || failed=1; \
	tools/test-processors Prescott --threads 1 --suite newest --cases 2 || failed=1; \
	exit $$failed

fuzz: .venv/.dev ## 10,000 random problems beside an oracle in long double, 10,000 formulas and damaged files, 2,000 tables and fits of yes/no responses, 1,000 samplers of sets (FUZZ='--count 500 --seed 1': options)
	OPENBLAS_NUM_THREADS=1 $(PY) -m tests.fuzz $(FUZZ)

docs: .venv/.docs ## the documentation, offline, warnings as errors, into docs/_build/html: some minutes
	@echo 'Cells are executed where the code has changed since the last build: some five minutes of processor time in all.'
	$(PY) -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo docs/_build/html/index.html

docs-check: .venv/.docs ## the same without executing cells and without pages: references, names and signatures
	$(PY) -m sphinx -q -W --keep-going -t unexecuted -b dummy -d docs/_build/unexecuted docs docs/_build/dummy

docs-r: ## the R package's pages, into docs/_build/html/r
	tools/docs-r

dist: ## wheel, source distribution and R source package into dist/, installed and tried (PYTHONS='python3.11 ...')
	tools/dist

benchmark-ridge: .venv/.benchmarks ## BayesRidge beside its peers and the unavoidable linear algebra
	$(PY) benchmarks/ridge_floor.py

benchmark-quick: .venv/.benchmarks ## every benchmark's quick form, into build/benchmarks/quick (DATA_DIR=...: the data)
	$(PY) -m benchmarks.pages --quick

benchmark-pages: .venv/.benchmarks ## every stored page of results, again, with all threads: hours (DATA_DIR=...: the data)
	$(PY) -m benchmarks.pages --threads all --resume

venv: .venv/.dev ## only make .venv, with the development tools

clean: ## remove environments, caches and built files
	rm -rf .venv .venv-oldest .venv-r .root-trixie build dist docs/_build docs/results/pages .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.core: $(SETUP)
	@tools/make-venv .venv -e '.[report]'
	@touch $@

.venv/.dev: $(SETUP)
	@tools/make-venv .venv -e '.[dev]'
	@touch .venv/.core $@

.venv/.docs: .venv/.dev
	@tools/make-venv .venv -e '.[docs]'
	@touch $@

.venv/.benchmarks: .venv/.dev
	@tools/make-venv .venv -e '.[benchmarks,plot]'
	@touch $@

.venv-oldest/.installed: $(SETUP) tools/oldest-requirements.txt
	@PYTHON_FIRST='python3.11 python3.12' tools/make-venv .venv-oldest -r tools/oldest-requirements.txt -e .
	@touch $@

.PHONY: help demo test test-ci lint typecheck test-python test-oldest test-r test-r-stable test-processors test-old-processor fuzz docs docs-check docs-r dist benchmark-ridge benchmark-quick benchmark-pages venv clean
