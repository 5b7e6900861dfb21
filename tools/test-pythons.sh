#!/bin/sh
# Tries the project on every Python 3.11, 3.12 and 3.13 of this machine that really runs: environment
# from the lock, MXNet's import, a dist_sync job of two workers, a read of RecordIO, and the tests of
# what can differ between Pythons: parsers, code hash, options and their help, JSON, TOML, statistics, figures.
# Looks on the PATH, where pyenv and uv keep theirs, and at PYTHONS="/path/to/python ...".
set -u
cd "$(dirname "$0")/.." || exit 2

candidates() {
    for path in ${PYTHONS:-}; do echo "$path"; done
    echo python3 # whose environment is the one of make test
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

# Sets `found` to the version that a program runs as; fails with its first word where it does not run.
runs() {
    found=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1) && return 0
    found=$(printf '%s\n' "$found" | sed -n 1p)
    return 1
}

tried=0
failed=0
summary=
for version in 3.11 3.12 3.13; do
    python=
    for path in $(candidates "$version"); do
        command -v "$path" >/dev/null || continue
        if ! runs "$path"; then
            [ "$path" = python3 ] || summary="$summary
$path: skipped, it does not run: $found"
        elif [ "$found" = "$version" ]; then
            python=$path
            break
        fi
    done
    if [ -z "$python" ]; then
        summary="$summary
Python $version: skipped, none found that runs"
        continue
    fi
    echo "== Python $version: $python"
    tried=$((tried + 1))
    if folder=$(PYTHON=$python tools/environment.sh) &&
        "$folder/bin/python" -m pytest -q -m "pythons and not (program or cluster or browser or slow)"; then
        summary="$summary
Python $version: passed ($python)"
    else
        failed=$((failed + 1))
        summary="$summary
Python $version: FAILED ($python)"
    fi
done
echo "$summary"
[ "$tried" -gt 0 ] || { echo "no Python to test with; name one with PYTHONS=/path/to/python" >&2; exit 2; }
[ "$failed" -eq 0 ]
