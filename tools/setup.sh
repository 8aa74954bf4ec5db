#!/usr/bin/env bash
# Make .venv with everything Shunter and its tests need. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
say() { printf 'setup: %s\n' "$*"; }
may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_install() { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null; }

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    say "Python 3.11 or newer is needed, and '$python' is not. On Debian 12: apt-get install python3 python3-venv"
    exit 1
fi

if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if may_install; then
        say "installing python3-venv"
        apt_install python3-venv
    else
        say "Python's venv module is missing. Type: sudo apt-get install python3-venv"
        exit 1
    fi
fi

java_major() { java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
if [ "$(java_major || true)" -ge 17 ] 2>/dev/null; then
    :
elif may_install; then
    say "installing Java 17 (flows on Spark need it)"
    apt_install openjdk-17-jre-headless || say "Java 17 could not be installed; jobs work without it, flows on Spark will not"
else
    say "Java 17 or newer is missing; jobs work without it, flows on Spark will not. Type: sudo apt-get install openjdk-17-jre-headless"
fi

if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then
    :
elif may_install; then
    say "installing Chromium (tests of the page use it)"
    apt_install chromium || say "Chromium could not be installed; tests of the page will be skipped"
else
    say "Chromium is missing; tests of the page will be skipped. Type: sudo apt-get install chromium"
fi

[ -x .venv/bin/python ] || "$python" -m venv .venv
say "installing packages into .venv"
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
say "done"
