#!/bin/sh
# Test the project on each of Python 3.11, 3.12 and 3.13 that runs on this machine: environment from
# the lock file, import of MXNet, a dist_sync job of two workers, reading RecordIO, and the tests whose
# subject can differ between Pythons (parsers, code hash, options and help, JSON, TOML, statistics,
# figures). Candidates: the PATH, pyenv, uv, and PYTHONS="/path/to/python ...". WITHOUT=3.11 leaves out
# the version that 'make test' has tested.
set -u
cd "$(dirname "$0")/.." || exit 2

candidates() {
    for path in ${PYTHONS:-}; do echo "$path"; done
    echo python3 # uses the environment of 'make test'
    old_ifs=$IFS; IFS=:
    for folder in $PATH; do
        echo "$folder/python$1"
        case $folder in
        */shims) for path in "${folder%/shims}/versions/$1".*/bin/python"$1"; do echo "$path"; done ;;
        esac
    done
    IFS=$old_ifs
    for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python"$1" \
        "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-"$1".*/bin/python"$1"; do
        echo "$path"
    done
}

# Set `found` to the version of an interpreter; if it does not run, to its first line, and fail.
runs() {
    found=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1) && return 0
    found=$(printf '%s\n' "$found" | sed -n 1p)
    return 1
}

tried=0
failed=0
summary=
for version in 3.11 3.12 3.13; do
    if [ "$version" = "${WITHOUT:-}" ]; then
        tried=$((tried + 1))
        summary="$summary
Python $version: left out"
        continue
    fi
    python=
    for path in $(candidates "$version"); do
        command -v "$path" >/dev/null || continue
        if ! runs "$path"; then
            [ "$path" = python3 ] || summary="$summary
$path: skipped, does not run: $found"
        elif [ "$found" = "$version" ]; then
            python=$path
            break
        fi
    done
    if [ -z "$python" ]; then
        summary="$summary
Python $version: skipped, none that runs"
        continue
    fi
    echo "== Python $version: $python"
    tried=$((tried + 1))
    # Collecting the other files would take longer than these tests.
    if folder=$(PYTHON=$python tools/environment.sh) &&
        "$folder/bin/python" -m pytest -q -m "pythons and not (program or cluster or browser or slow)" \
            $(grep -rl --include='test_*.py' 'mark\.pythons' tests); then
        summary="$summary
Python $version: passed ($python)"
    else
        failed=$((failed + 1))
        summary="$summary
Python $version: FAILED ($python)"
    fi
done
echo "$summary"
[ "$tried" -gt 0 ] || { echo "PATH: expected Python 3.11, 3.12 or 3.13, found none that runs. Name one: PYTHONS=/path/to/python make test-pythons" >&2; exit 2; }
[ "$failed" -eq 0 ]
