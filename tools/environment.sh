#!/bin/sh
# Makes the virtual environment of one interpreter from requirements.lock, once, and prints its folder.
#   tools/environment.sh            the first python3 / python3.13 / 3.12 / 3.11 that is usable -> .venv
#   PYTHON=python3.12 tools/environment.sh                                                      -> .venv-python3.12
set -u
cd "$(dirname "$0")/.." || exit 2

say() { echo "$*" >&2; }

# Prints version and path of an interpreter that this project can use; fails with a reason otherwise.
probe() {
    "$1" -c '
import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit("is Python %d.%d; expected 3.11, 3.12 or 3.13" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("has no venv module (on Debian: apt-get install python3-venv)")
print("%d.%d.%d %s" % (sys.version_info[:3] + (sys.executable,)))' 2>&1
}

if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != python3 ]; then
    folder=.venv-$(basename "$PYTHON")
    found=$(probe "$PYTHON") || {
        say "PYTHON=$PYTHON cannot be used: $(printf '%s\n' "$found" | sed -n '1p')"
        exit 2
    }
    interpreter=$PYTHON
else
    folder=.venv
    interpreter=
    for candidate in python3 python3.13 python3.12 python3.11; do
        found=$(probe "$candidate") && { interpreter=$candidate; break; }
    done
    [ -n "$interpreter" ] || {
        say "no usable Python found: expected python3, python3.13, python3.12 or python3.11 with venv on the PATH (the last one tried: $(printf '%s\n' "$found" | sed -n '1p'))"
        exit 2
    }
fi

# MXSCALE_GPU=1: MXNet for GPUs, with the CUDA libraries that it is linked with.
gpu=${MXSCALE_GPU:+requirements-gpu.lock}
wanted="$found $(cat requirements.lock $gpu | cksum)"
# MXSCALE_EXPORTS=1: the libraries of fab results.export as well. An environment that has them keeps them.
exports=${MXSCALE_EXPORTS:-$(cat "$folder/exports-stamp" 2>/dev/null)}
if [ "$(cat "$folder/lock-stamp" 2>/dev/null)" != "$wanted" ]; then
    say "setting up $folder with Python ${found%% *} from requirements.lock (about a minute) ..."
    "$interpreter" -m venv --clear "$folder" >&2 || {
        say "$interpreter could not make a virtual environment (on Debian: apt-get install python3-venv)"
        exit 2
    }
    # --no-deps: the lock is complete, and mxnet's own metadata would refuse a NumPy that works.
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r requirements.lock >&2 || {
        say "pip could not install requirements.lock into $folder; its message stands above. Mend the cause and run the same command again."
        exit 2
    }
    if [ -n "$gpu" ]; then
        "$folder/bin/python" -m pip uninstall --quiet --yes mxnet >&2 &&
            "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
                --only-binary :all: --require-hashes -r "$gpu" >&2 || {
            say "pip could not install $gpu into $folder; its message stands above. Mend the cause and run the same command again."
            exit 2
        }
    fi
    missing=$("$folder/bin/python" -c '
import ctypes
for name in "libgomp.so.1", "libquadmath.so.0":
    try:
        ctypes.CDLL(name)
    except OSError:
        print(name)')
    [ -z "$missing" ] || {
        say "MXNet needs" $missing "and this machine lacks it (on Debian: apt-get install libgomp1 libquadmath0)"
        exit 2
    }
    printf '%s\n' "$wanted" >"$folder/lock-stamp"
    say "environment ready: $folder (its commands are in $folder/bin)"
fi
if [ -n "$exports" ] && [ "$(cat "$folder/exports-stamp" 2>/dev/null)" != "$(cksum <requirements-exports.lock)" ]; then
    say "adding requirements-exports.lock to $folder ..."
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r requirements-exports.lock >&2 || {
        say "pip could not install requirements-exports.lock into $folder; its message stands above. Mend the cause and run the same command again."
        exit 2
    }
    cksum <requirements-exports.lock >"$folder/exports-stamp"
fi
echo "$folder"
