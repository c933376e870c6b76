#!/bin/sh
# make_venv.sh PYTHON FOLDER: make a virtual environment, or say which Debian package is missing.
set -eu

python=$1
folder=$2

if ! command -v "$python" >/dev/null; then
    echo "There is no $python on this machine: apt-get install python3 python3-venv" >&2
    echo "(or name one of 3.11 or newer: make PYTHON=/path/to/python3 ...)" >&2
    exit 1
fi

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "objq needs Python 3.11 or newer; $python is $("$python" -V 2>&1)." >&2
    echo "Debian 12 and later have it: apt-get install python3 python3-venv" >&2
    echo "(or name another: make PYTHON=/path/to/python3 ...)" >&2
    exit 1
fi

echo "Making $folder with $("$python" -V 2>&1) ..."
# Debian's python3 has the module `venv` but not what it unpacks, so only trying it tells.
if ! said=$("$python" -m venv "$folder" 2>&1); then
    rm -rf "$folder"
    echo "$said" >&2
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "No virtual environment can be made: apt-get install python3-venv (or python$version-venv)" >&2
    exit 1
fi
