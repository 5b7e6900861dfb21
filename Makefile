# make demo            from photographs to a scaling report on this machine; about four minutes
# make test            check format, lint and types; run every test that this machine can run
# make test-fast       check lint; run the tests that start no program; about two minutes
# make test-pythons    run tests that can differ between Pythons on every Python 3.11 to 3.13
# make test-slow       interrupt sweeps and every writer many more times than make test does
# make fuzz SECONDS=60 feed changed samples to every parser; failing inputs stay in tests/seeds
# make exports         install the libraries of fab results.export; see docs/how-to/export.md
# make docs            build the documentation site in site/
# make lock            renew the lock files after a change of dependencies in pyproject.toml
# PYTHON=python3.12 make ...   use that interpreter, in an environment of its own
SHELL := /bin/sh
# Compiled tests are kept: each of three workers reads all of them.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := -m pytest -q
# Programs that tests start would compile what they import each time: 0.1 to 0.3 s each.
COMPILE := -m compileall -q bench im2rec_tools launch plots results tasks fabfile.py

.PHONY: demo test test-fast test-pythons test-slow fuzz exports docs lock clean
.NOTPARALLEL:

demo:
	@bin=$$(tools/environment.sh) && "$$bin/bin/fab" demo

test:
	@bin=$$(tools/environment.sh) && \
	"$$bin/bin/ruff" format --check . && \
	"$$bin/bin/ruff" check . && \
	"$$bin/bin/python" $(COMPILE) && { \
	"$$bin/bin/mypy" . & types=$$!; \
	"$$bin/bin/python" $(PYTEST) -m "not slow"; tests=$$?; \
	wait $$types || { echo "mypy failed: its errors are above the tests"; exit 1; }; \
	exit $$tests; }

test-fast:
	@bin=$$(tools/environment.sh) && \
	"$$bin/bin/ruff" format --check . && \
	"$$bin/bin/ruff" check . && \
	"$$bin/bin/python" $(PYTEST) -m "not (mxnet or program or cluster or browser or gpu or slow)"

test-pythons:
	@tools/test-pythons.sh

test-slow:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" $(PYTEST) -m slow

fuzz:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" -m tests.support.fuzz.fuzzer \
	    --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED))

exports:
	@MXSCALE_EXPORTS=1 tools/environment.sh

docs:
	@bin=$$(MXSCALE_DOCS=1 tools/environment.sh) && \
	NO_MKDOCS_2_WARNING=1 "$$bin/bin/mkdocs" build --strict --quiet && \
	"$$bin/bin/fab" report.build --run site/runs/demo >/dev/null && \
	echo "Open site/index.html"

# After a change of pyproject.toml's dependencies: pins and hashes for every supported Python.
lock:
	@bin=$$(tools/environment.sh) && "$$bin/bin/python" -m pip install --quiet uv && \
	echo "numpy>=2" >.override.txt && \
	"$$bin/bin/uv" pip compile --universal --python-version 3.11 --override .override.txt \
	    --group pyproject.toml:dev pyproject.toml --generate-hashes --no-emit-index-url \
	    --no-header --no-annotate --quiet --output-file requirements.lock && \
	"$$bin/bin/uv" pip compile --universal --python-version 3.11 --no-deps --generate-hashes \
	    --no-emit-index-url --no-header --no-annotate --quiet \
	    --output-file requirements-gpu.lock requirements-gpu.in && \
	"$$bin/bin/uv" pip compile --universal --python-version 3.11 --override .override.txt \
	    --constraint requirements.lock --extra exports pyproject.toml \
	    $$(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) \
	    --only-binary :all: --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --no-emit-build-options --quiet --output-file requirements-exports.lock && \
	"$$bin/bin/uv" pip compile --universal --python-version 3.11 --override .override.txt \
	    --constraint requirements.lock --constraint requirements-exports.lock \
	    --extra docs pyproject.toml \
	    $$(sed -n '/win32/!s/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' requirements.lock) \
	    --only-binary :all: --generate-hashes --no-emit-index-url --no-header --no-annotate \
	    --no-emit-build-options --quiet --output-file requirements-docs.lock; \
	rm -f .override.txt

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache
