#!/bin/sh
# Print the path of a Python that runs Django 6 (3.12 or newer), found by running it; 1 if none.
set -eu

works() {
    "$@" -c 'import ensurepip, sqlite3, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null
}

path_of() {
    "$@" -c 'import sys; print(sys.executable)'
}

for version in 3.13 3.12 3.14; do
    if works "python$version"; then
        path_of "python$version"
        exit 0
    fi
    # pyenv's shims answer only for a version that is switched on.
    for installed in $(pyenv versions --bare 2>/dev/null | grep "^$version\." || true); do
        if works env "PYENV_VERSION=$installed" "python$version"; then
            path_of env "PYENV_VERSION=$installed" "python$version"
            exit 0
        fi
    done
done

echo "No Python 3.12 or newer found, so nothing runs with Django 6 here." >&2
exit 1
