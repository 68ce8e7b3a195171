#!/bin/sh
# Installs Patroni where Debian's packages can be had, for the tests that run servers under it. Does nothing when it is there, and elsewhere:
# those tests are skipped without it.
set -eu

if command -v patroni >/dev/null; then
	[ "${1:-}" = --quiet ] || echo "Patroni: $(patroni --version)"
	exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
	echo "Patroni is missing: its tests are skipped"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends patroni; } >"$log" 2>&1; then
	tail -n 20 "$log"
	echo "Patroni could not be installed: its tests are skipped"
	exit 0
fi
echo "Patroni: $(patroni --version)"
