#!/bin/sh
# Creates the virtual environment of one interpreter from requirements.lock, and prints its folder.
# A working environment is updated in place, and only while no process runs from it.
#   tools/environment.sh            the first python3 / python3.13 / 3.12 / 3.11 that is usable -> .venv
#   PYTHON=python3.12 tools/environment.sh                                                      -> .venv-python3.12
set -u
cd "$(dirname "$0")/.." || exit 2

say() { echo "$*" >&2; }

# Prints version and path of an interpreter that this project can use; fails with a reason otherwise.
# For a virtual environment, prints the path of the interpreter that created it: an environment
# whose commands are on the PATH is not another interpreter.
probe() {
    "$1" -c '
import os, sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit("is Python %d.%d; expected 3.11, 3.12 or 3.13" % sys.version_info[:2])
try:
    import ensurepip, venv
except ImportError:
    sys.exit("has no venv module (on Debian: apt-get install python3-venv)")
base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print("%d.%d.%d %s" % (sys.version_info[:3] + (base,)))' 2>&1
}

# Prints the id of a process that runs from the environment, if there is one: its command, or a
# library that it has loaded, lies in the environment.
running() {
    "$interpreter" -c '
import glob, os, sys
folder = os.path.join(os.path.realpath(sys.argv[1]), "")
own = {os.getpid(), os.getppid()}
for path in glob.glob("/proc/[0-9]*"):
    pid = int(path[6:])
    if pid in own:
        continue
    try:
        command = open(path + "/cmdline", "rb").read().split(b"\0")
        there = os.readlink(path + "/cwd")
        loaded = open(path + "/maps", errors="replace").read()
    except OSError:
        continue
    named = [os.path.join(there, os.fsdecode(word)) for word in command[:2]]
    if folder in loaded or any(name.startswith(folder) for name in named):
        print(pid)
        break' "$folder"
}

fail() { say "$*"; exit 2; }

install() {
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$1" >&2 ||
        fail "pip could not install $1 into $folder; see its message above. Fix the cause, then run the same command again"
}

if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != python3 ]; then
    folder=.venv-$(basename "$PYTHON")
    found=$(probe "$PYTHON") || fail "PYTHON=$PYTHON cannot be used: $(printf '%s\n' "$found" | sed -n '1p')"
    interpreter=$PYTHON
else
    folder=.venv
    interpreter=
    for candidate in python3 python3.13 python3.12 python3.11; do
        found=$(probe "$candidate") && { interpreter=$candidate; break; }
    done
    [ -n "$interpreter" ] ||
        fail "no usable Python found: expected python3, python3.13, python3.12 or python3.11 with venv on the PATH (last one tried: $(printf '%s\n' "$found" | sed -n '1p'))"
fi
# The interpreter itself, not the link to it that an environment on the PATH has.
interpreter=${found#* }

# MXSCALE_GPU=1: MXNet for GPUs, with the CUDA libraries that it is linked with.
# MXSCALE_EXPORTS=1: the libraries of fab results.export. MXSCALE_DOCS=1: those of make docs.
# An environment keeps what it has of these.
gpu=
[ -z "${MXSCALE_GPU:-}" ] && [ ! -e "$folder/gpu-stamp" ] || gpu=requirements-gpu.lock
exports=${MXSCALE_EXPORTS:-$(cat "$folder/exports-stamp" 2>/dev/null)}
wanted=$(cat requirements.lock $gpu | cksum)
wanted_exports=${exports:+$(cksum <requirements-exports.lock)}
docs=${MXSCALE_DOCS:-$(cat "$folder/docs-stamp" 2>/dev/null)}
wanted_docs=${docs:+$(cksum <requirements-docs.lock)}
is_current() {
    [ "$(cat "$folder/lock-stamp" 2>/dev/null)" = "$wanted" ] &&
        [ "$(cat "$folder/exports-stamp" 2>/dev/null)" = "$wanted_exports" ] &&
        [ "$(cat "$folder/docs-stamp" 2>/dev/null)" = "$wanted_docs" ]
}

works() { "$folder/bin/python" -m pip --version >/dev/null 2>&1; }

there=$(probe "$folder/bin/python") && usable=1 || usable=
if [ -n "$usable" ] && [ "$there" = "$found" ]; then
    is_current && { echo "$folder"; exit 0; }
elif [ -n "$usable" ] || works; then
    fail "$folder: expected an environment of Python $found, got one of $there. To keep it, put its Python first on the PATH. To replace it, run 'rm -r $folder', then the same command again"
fi

# One at a time: a second process waits here, then finds the work done.
exec 9>"$folder.lock"
flock 9 || exit 2
if works; then
    is_current && { echo "$folder"; exit 0; }
    user=$(running)
    [ -z "$user" ] ||
        fail "$folder: cannot be updated to the lock files while process $user runs from it. Wait for the process or run 'kill $user', then run the same command again"
    say "updating $folder to requirements.lock ..."
else
    say "setting up $folder with Python ${found%% *} from requirements.lock (about a minute) ..."
    "$interpreter" -m venv --clear "$folder" >&2 ||
        fail "$interpreter could not create a virtual environment (on Debian: apt-get install python3-venv)"
fi
if [ "$(cat "$folder/lock-stamp" 2>/dev/null)" != "$wanted" ]; then
    rm -f "$folder/lock-stamp"
    # --no-deps: the lock is complete, and mxnet's own metadata would refuse a NumPy that works.
    install requirements.lock
    if [ -n "$gpu" ]; then
        "$folder/bin/python" -m pip uninstall --quiet --yes mxnet >&2
        install "$gpu"
        : >"$folder/gpu-stamp"
    fi
    missing=$("$folder/bin/python" -c '
import ctypes
for name in "libgomp.so.1", "libquadmath.so.0":
    try:
        ctypes.CDLL(name)
    except OSError:
        print(name)')
    [ -z "$missing" ] ||
        fail "MXNet needs" $missing "which is not installed (on Debian: apt-get install libgomp1 libquadmath0)"
    printf '%s\n' "$wanted" >"$folder/lock-stamp"
    say "environment ready: $folder (its commands are in $folder/bin)"
fi
if [ "$(cat "$folder/exports-stamp" 2>/dev/null)" != "$wanted_exports" ]; then
    say "adding requirements-exports.lock to $folder ..."
    install requirements-exports.lock
    printf '%s\n' "$wanted_exports" >"$folder/exports-stamp"
fi
if [ "$(cat "$folder/docs-stamp" 2>/dev/null)" != "$wanted_docs" ]; then
    say "adding requirements-docs.lock to $folder ..."
    install requirements-docs.lock
    printf '%s\n' "$wanted_docs" >"$folder/docs-stamp"
fi
echo "$folder"
