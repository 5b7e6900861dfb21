# make demo             first step: pack photographs, train, sweep and build a report here; 4 to 6 minutes
# make environment      create the environment .venv alone; about a minute
# make test             check format, lint and types; run the tests; 4 to 9 minutes
# make test-fast        check format and lint; run the tests that start no program; about 2 minutes
# make test-system      run the tests of whole programs: jobs, clusters, Chromium; 5 to 9 minutes
# make test-pythons     run the tests that depend on the Python version on Python 3.11 to 3.13
# make test-slow        interrupt sweeps and writers far more often than 'make test' does
# make fuzz SECONDS=60  feed mutated samples to every parser; failing inputs go to tests/seeds
# make exports          install the libraries of 'fab results.export' (docs/how-to/export.md)
# make remote           install the libraries of s3:// and gs:// URLs (docs/how-to/fetch-data.md)
# make torch            install PyTorch, for CPU if pip finds that; LIMIT_GB=4 limits the download
# make spark            install PySpark, 0.4 GB, for a slow test (docs/how-to/dial-in.md)
# make docs             build the documentation site in site/
# make lock             renew the lock files after a change of dependencies in pyproject.toml
# make clean            remove the environments and the caches of the checkers
# PYTHON=python3.12 make TARGET   use this interpreter, in the environment .venv-python3.12
SHELL := /bin/sh
# Keep compiled tests: each of three test processes reads all of them.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := -m pytest -q
# Compile modules once; otherwise each program that a test starts does it, in 0.1 to 0.3 s.
COMPILE := -m compileall -q bench im2rec_tools launch plots results tasks fabfile.py

.PHONY: help environment demo test test-fast test-system test-pythons test-slow fuzz exports remote torch spark docs lock clean
.NOTPARALLEL:

.DEFAULT_GOAL := help

# The lines at the beginning of this file.
help:
	@sed -n 's/^# \(make .*\|PYTHON=.*\)/\1/p' $(firstword $(MAKEFILE_LIST))

environment:
	@bin=$$(tools/environment.sh) && echo "$$bin is ready; list the tasks with $$bin/bin/fab --list"

demo:
	@bin=$$(tools/environment.sh) && "$$bin/bin/fab" demo

test:
	@bin=$$(tools/environment.sh) && \
	"$$bin/bin/ruff" format --check . && \
	"$$bin/bin/ruff" check . && \
	"$$bin/bin/python" $(COMPILE) && { \
	"$$bin/bin/mypy" . & types=$$!; \
	"$$bin/bin/python" $(PYTEST) -m "not slow" --ignore tests/system; tests=$$?; \
	wait $$types || { echo "mypy: failed; its errors are above the test results"; exit 1; }; \
	exit $$tests; }

test-fast:
	@bin=$$(tools/environment.sh) && \
	"$$bin/bin/ruff" format --check . && \
	"$$bin/bin/ruff" check . && \
	"$$bin/bin/python" $(PYTEST) -m "not (mxnet or program or cluster or browser or gpu or slow)"

test-system:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" $(COMPILE) && \
	"$$bin/bin/python" $(PYTEST) -m "not slow" tests/system

test-pythons:
	@tools/test-pythons.sh

test-slow:
	@bin=$$(MXSCALE_REMOTE=1 MXSCALE_SLOW=1 tools/environment.sh) && "$$bin/bin/python" $(PYTEST) -m slow

fuzz:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" -m tests.support.fuzz.fuzzer \
	    --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

exports:
	@MXSCALE_EXPORTS=1 tools/environment.sh

remote:
	@MXSCALE_REMOTE=1 tools/environment.sh

torch:
	@MXSCALE_TORCH=$(or $(LIMIT_GB),4) tools/environment.sh

spark:
	@MXSCALE_SPARK=1 tools/environment.sh

docs:
	@bin=$$(MXSCALE_DOCS=1 tools/environment.sh) && \
	NO_MKDOCS_2_WARNING=1 "$$bin/bin/mkdocs" build --strict --quiet && \
	"$$bin/bin/fab" report.build --run site/runs/demo >/dev/null && \
	echo "Open site/index.html"

# Pins and hashes for every supported Python. Each extra's lock keeps the versions of those before it.
# Overrides: the metadata of mxnet (numpy) and of botocore (dateutil) exclude versions that work.
COMPILE_LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-header --no-annotate --quiet
lock:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" -m pip install --quiet uv && \
	printf '%s\n' "numpy>=2" "python-dateutil>=2.9" >.override.txt && \
	"$$bin/bin/"$(COMPILE_LOCK) --override .override.txt \
	    --group pyproject.toml:dev pyproject.toml --output-file requirements.lock && \
	"$$bin/bin/"$(COMPILE_LOCK) --no-deps --output-file requirements-gpu.lock \
	    requirements-gpu.in && \
	constraints="--constraint requirements.lock" && \
	for extra in exports docs remote slow torch spark; do \
	    case $$extra in slow | spark) from=--group ;; *) from=--extra ;; esac; \
	    case $$extra in spark) builds= ;; *) builds="--only-binary :all:" ;; esac; \
	    "$$bin/bin/"$(COMPILE_LOCK) --override .override.txt $$constraints \
	        $$from $$extra pyproject.toml \
	        $$(sed -n '/win32/!s/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) \
	        $$builds --no-emit-build-options \
	        --output-file requirements-$$extra.lock || break; \
	    constraints="$$constraints --constraint requirements-$$extra.lock"; \
	done; \
	"$$bin/bin/python" tools/split_torch_lock.py; \
	rm -f .override.txt

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache
