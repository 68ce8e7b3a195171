#!/bin/sh
# Runs every fuzz target of the module, one after the other, for $1 each.
set -eu

for_each=${1:-30s}
found=0
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=1
		echo "== $(dirname "$file") $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$for_each" "$(dirname "$file")"
	done
done
[ "$found" = 1 ] || { echo "no fuzz targets found" >&2; exit 1; }
