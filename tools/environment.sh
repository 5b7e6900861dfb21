#!/bin/sh
# Create the virtual environment of an interpreter from requirements.lock, and print its folder.
# A working environment is updated in place, and only while no process runs from it.
#   tools/environment.sh                     first usable of python3, python3.13, 3.12, 3.11 -> .venv
#   PYTHON=python3.12 tools/environment.sh   that interpreter -> .venv-python3.12
# An error is one line, "where: expected X, got Y. Fix", below the output of pip or venv.
set -u
cd "$(dirname "$0")/.." || exit 2

log() { printf '%s\n' "$*" >&2; }
fail() { log "$*"; exit 2; }
again="then run the same command again"
another="Choose another, as in 'PYTHON=python3.12 make demo'"

# Print version and path of an interpreter if this project can use it; else the error, and fail.
# The path is that of the interpreter that created an environment: an environment on the PATH is
# not another interpreter.
probe() {
    command -v "$1" >/dev/null || { echo "expected a Python interpreter, found none. $another"; return 1; }
    "$1" -c '
import os, sys
version = "%d.%d" % sys.version_info[:2]
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit("expected Python 3.11, 3.12 or 3.13, got %s. %s" % (version, sys.argv[-1]))
try:
    import ensurepip, venv
except ImportError:
    sys.exit("expected Python with its venv module, got %s without venv. Install it "
             "(Debian, Ubuntu: apt-get install python%s-venv)" % (version, version))
base = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
print("%d.%d.%d %s" % (sys.version_info[:3] + (base,)))' "$another" 2>&1
}

# Print the error of an interpreter from the output of probe, on one line.
probe_error() {
    first=$(printf '%s\n' "$1" | sed -n 1p)
    case $first in
    expected*) echo "$first" ;;
    *) echo "expected a Python interpreter that runs, got '$first'. $another" ;;
    esac
}

# Print the id of a process whose command, or a library that it has loaded, is in the environment.
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

free_kb() { df -Pk "$1" | awk 'NR == 2 { print $4 }'; }
free_space() { free_kb "$1" | awk '{ printf "%.1f GB", $1 / 1e6 }'; }

# Run a command and print its output on stderr; keep the output in `output`. Fails as it does.
attempt() {
    exec 3>&2
    output=$({ "$@" 2>&1 || echo "attempt: failed"; } | while IFS= read -r line; do
        [ "$line" = "attempt: failed" ] || printf '%s\n' "$line" >&3
        printf '%s\n' "$line"
    done)
    exec 3>&-
    case $output in *"attempt: failed") return 1 ;; esac
}

# Exit with the error if `output` shows the cause: full disk, other packages, no network.
fail_with_cause() {
    # venv does not print that the disk is full.
    [ "$(free_kb .)" -gt 50000 ] || output="$output No space left on device"
    case $output in
    *"No space left on device"* | *"Disk quota exceeded"*)
        temporary=${TMPDIR:-/tmp}
        fail "$folder: expected 1 GB of free disk space, got $(free_space .) here and $(free_space "$temporary") in $temporary. Free some or set TMPDIR to a larger folder, $again" ;;
    *"DO NOT MATCH THE HASHES"*)
        fail "$1: expected packages with these hashes, got others. Run '$folder/bin/python -m pip cache purge' and check your package mirror, $again" ;;
    *"connection broken by"* | *ProxyError* | *SSLError* | *ConnectionError* | *TimeoutError*)
        fail "$folder: expected a connection to the package index, got none. Check the network, or set HTTPS_PROXY to a proxy or PIP_INDEX_URL to a mirror, $again" ;;
    esac
}

# Install the packages of a lock file; errors name it as $2 if it is a copy. PySpark has no wheel; it
# builds with the locked setuptools.
install() {
    attempt "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --no-binary pyspark --no-build-isolation --require-hashes -r "$1" && return
    set -- "${2:-$1}"
    fail_with_cause "$1"
    [ "$(uname -sm)" = "Linux x86_64" ] ||
        fail "$1: expected a Linux x86_64 machine, got $(uname -sm). Use a Linux x86-64 machine or VM: MXNet 1.9.1 has no other packages"
    fail "$folder: expected the packages of $1, got the error of pip above. Fix its cause, $again"
}

# Let every program of the environment import MXNet: copy the import hook and the .pth file that loads
# it. Both appear complete, so running processes do not matter.
hook=bench/mxnet_import.py
install_hook() {
    for site in "$folder"/lib/python3.*/site-packages; do
        [ -d "$site" ] || continue
        cmp -s "$hook" "$site/_mxscale_mxnet.py" && [ -s "$site/_mxscale_mxnet.pth" ] && continue
        new=$site/_mxscale_mxnet.$$
        { cp "$hook" "$new" && mv -f "$new" "$site/_mxscale_mxnet.py" &&
            "$folder/bin/python" -m py_compile "$site/_mxscale_mxnet.py" &&
            echo "import _mxscale_mxnet" >"$new" && mv -f "$new" "$site/_mxscale_mxnet.pth"; } 2>/dev/null ||
            log "$site: cannot be written, so 'import mxnet' may fail there. Run this command as the owner of the environment"
    done
}

if [ -n "${PYTHON:-}" ] && [ "$PYTHON" != python3 ]; then
    folder=.venv-$(basename "$PYTHON")
    found=$(probe "$PYTHON") || fail "PYTHON=$PYTHON: $(probe_error "$found")"
    interpreter=$PYTHON
else
    folder=.venv
    interpreter=
    unusable=
    for candidate in python3 python3.13 python3.12 python3.11; do
        found=$(probe "$candidate") && { interpreter=$candidate; break; }
        found=$(probe_error "$found")
        case $found in *"found none"*) got=missing ;; *) got=${found#*got } got=${got%%. *} ;; esac
        unusable="$unusable${unusable:+, }$candidate: $got"
    done
    [ -n "$interpreter" ] ||
        fail "PATH: expected Python 3.11, 3.12 or 3.13 with its venv module, found none ($unusable). Install one (Debian, Ubuntu: apt-get install python3-venv), or run 'PYTHON=/path/to/python3.12 make demo'"
fi
# The interpreter itself, not the link to it that an environment on the PATH has.
interpreter=${found#* }

# MXSCALE_GPU=1: MXNet for GPUs, with the CUDA libraries that it is linked with.
# MXSCALE_EXPORTS=1: the libraries of fab results.export. MXSCALE_DOCS=1: those of make docs.
# MXSCALE_REMOTE=1: those of s3:// and gs:// URLs. MXSCALE_SLOW=1: those of make test-slow.
# MXSCALE_SPARK=1: PySpark.
# MXSCALE_TORCH=4: PyTorch, unless its download is larger than 4 GB.
# Once installed, an environment keeps these.
gpu=
[ -z "${MXSCALE_GPU:-}" ] && [ ! -e "$folder/gpu-stamp" ] || gpu=requirements-gpu.lock
wanted=$(cat requirements.lock $gpu | cksum)
extras="exports docs remote slow torch spark"

stamp() { cat "$folder/$1-stamp" 2>/dev/null; }

# Print the stamp that an extra's current libraries have; nothing if it is not wanted.
wanted_stamp() {
    case $1 in
    exports) requested=${MXSCALE_EXPORTS:-} ;;
    docs) requested=${MXSCALE_DOCS:-} ;;
    remote) requested=${MXSCALE_REMOTE:-} ;;
    slow) requested=${MXSCALE_SLOW:-} ;;
    torch) requested=${MXSCALE_TORCH:-} ;;
    spark) requested=${MXSCALE_SPARK:-} ;;
    esac
    [ -z "$requested$(stamp "$1")" ] || cat "requirements-$1"*.lock | cksum
}

is_current() {
    [ "$(stamp lock)" = "$wanted" ] || return 1
    for extra in $extras; do
        [ "$(stamp "$extra")" = "$(wanted_stamp "$extra")" ] || return 1
    done
}

# Print which build of the locked PyTorch pip finds: cpu, cuda, or nothing. It prefers cpu, unless
# this machine has a GPU and the limit of the download allows cuda.
torch_build() {
    versions=$(PIP_QUIET=0 "$folder/bin/python" -m pip index versions torch 2>/dev/null | sed -n 's/^Available versions: //p')
    case " $versions," in
    *" $torch,"*" $torch+cpu,"* | *" $torch+cpu,"*" $torch,"*)
        if ! too_large && nvidia-smi -L >/dev/null 2>&1; then echo cuda; else echo cpu; fi ;;
    *" $torch+cpu,"*) echo cpu ;;
    *" $torch,"*) echo cuda ;;
    esac
}

# Install PyTorch. Fails, with a note, if only a build for GPUs exists and is larger than the limit.
torch_cuda_gb=2.7
too_large() { awk "BEGIN { exit !($torch_cuda_gb > $limit) }"; }
install_torch() {
    torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' requirements-torch.lock)
    limit=${MXSCALE_TORCH:-4}
    case $(torch_build) in
    cpu)
        # Named with +cpu, or pip would take the other build if the lock lacks the hash of this one.
        lock=$(mktemp) && sed "s/^torch==$torch/&+cpu/" requirements-torch.lock >"$lock"
        install "$lock" requirements-torch.lock
        rm -f "$lock" ;;
    cuda)
        too_large && {
            log "torch: skipped: pip finds only the build for GPUs, a download of $torch_cuda_gb GB, which is above $limit GB. To install it, run 'make torch LIMIT_GB=3'"
            return 1
        }
        log "torch: downloading the build for GPUs, $torch_cuda_gb GB ..."
        install requirements-torch.lock
        install requirements-torch-cuda.lock ;;
    *)
        fail "torch: expected version $torch for Python ${found%% *} from pip, got none. Use Python 3.11, or set PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL to a place that has it, $again" ;;
    esac
}

works() { "$folder/bin/python" -m pip --version >/dev/null 2>&1; }

existing=$(probe "$folder/bin/python") && usable=1 || usable=
if [ -n "$usable" ] && [ "$existing" = "$found" ]; then
    is_current && { install_hook; echo "$folder"; exit 0; }
elif [ -n "$usable" ] || works; then
    [ -n "$usable" ] || existing=$("$folder/bin/python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>&1)
    fail "$folder: expected an environment of Python $found, got one of Python $existing. To keep it, put its Python first on the PATH; to replace it, run 'rm -r $folder', $again"
fi

# One process at a time: a second one waits here, then finds a current environment.
problem=$({ : >>"$folder.lock"; } 2>&1) ||
    fail "$PWD/$folder.lock: cannot be written (${problem##*: }). Use a checkout that you can write to, on a disk with 1 GB free, $again"
exec 9>"$folder.lock"
flock 9 || fail "$PWD/$folder.lock: cannot be locked. Use a checkout on a file system with locks, $again"
if works; then
    is_current && { install_hook; echo "$folder"; exit 0; }
    user=$(running)
    [ -z "$user" ] ||
        fail "$folder: cannot be updated to the changed lock files: process $user runs from it. Wait for the process or run 'kill $user', $again"
    [ "$(stamp lock)" = "$wanted" ] ||
        log "updating $folder to the changed lock files ..."
else
    log "creating $folder with Python ${found%% *} (1 GB, about a minute) ..."
    attempt "$interpreter" -m venv --clear "$folder" || {
        fail_with_cause "$folder"
        fail "$folder: expected a virtual environment, got the error of '$interpreter -m venv' above. Install venv (Debian, Ubuntu: apt-get install python3-venv), $again"
    }
fi
if [ "$(stamp lock)" != "$wanted" ]; then
    rm -f "$folder/lock-stamp"
    # --no-deps: the lock is complete, and mxnet's own metadata would reject a NumPy that works.
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
        fail "this machine: expected the shared libraries of MXNet, got all but" $missing"." "Install them (Debian, Ubuntu: apt-get install libgomp1 libquadmath0), $again"
    # fab --help without a task would print the options of Fabric; fab alone prints those of mxscale.
    fab=$folder/bin/fab
    if [ -e "$fab" ] && ! grep -q 'del sys.argv' "$fab"; then
        sed -i "s/^if __name__ == .*/&\n    if sys.argv[1:] in (['-h'], ['--help']): del sys.argv[1:]/" "$fab"
    fi
    printf '%s\n' "$wanted" >"$folder/lock-stamp"
    log "$folder is ready; its commands are in $folder/bin"
fi
for extra in $extras; do
    new=$(wanted_stamp "$extra")
    [ "$(stamp "$extra")" != "$new" ] || continue
    case $extra in
    exports) users="'fab results.export'" ;;
    docs) users="'make docs'" ;;
    remote) users="s3:// and gs:// URLs" ;;
    slow) users="'make test-slow'" ;;
    torch) users="'make torch'" ;;
    spark) users="'make spark'" ;;
    esac
    log "adding the libraries of $users to $folder ..."
    case $extra in
    torch) install_torch || continue ;;
    *) install "requirements-$extra.lock" ;;
    esac
    printf '%s\n' "$new" >"$folder/$extra-stamp"
done
install_hook
echo "$folder"
