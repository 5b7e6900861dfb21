#!/bin/sh
# Install mxscale's environment in a Debian or Ubuntu image, as root. Dockerfile and apptainer.def
# run this file; a test runs it in a Debian root (docs/how-to/containers.md).
set -eu
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1
apt-get update
apt-get install --yes --no-install-recommends ca-certificates libgomp1 libquadmath0 make python3 \
    python3-venv
rm -rf /var/lib/apt/lists/*
make environment
mkdir -p data results/runs # of a read-only image: folders to bind
