#!/bin/sh
# Installs, where Debian's packages can be had, what some tests of failovers need: Patroni, which runs servers, and libfaketime, which gives a
# server a clock of its own. Does nothing when they are there, and elsewhere: those tests are skipped without them.
set -eu

missing=""
command -v patroni >/dev/null || missing="$missing patroni"
ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || missing="$missing libfaketime"
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
	echo "missing:$missing: tests that need them are skipped"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # one argument for each package
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	tail -n 20 "$log"
	echo "could not be installed:$missing: tests that need them are skipped"
	exit 0
fi
echo "installed:$missing"
