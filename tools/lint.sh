#!/bin/sh
# Everything a change must pass before it is looked at. All checks run, then the
# exit code says whether any of them found something.
set -u

failed=""
check() {
	echo "== $*"
	"$@" || failed="$failed '$*'"
}

formatted() {
	list=$(go tool gofumpt -l .) || return 1
	[ -z "$list" ] && return
	echo "these files are not formatted; run: make fmt" >&2
	echo "$list" >&2
	return 1
}

check formatted
check go vet ./...
check go tool staticcheck ./...
check go mod tidy -diff

if [ -n "$failed" ]; then
	echo "failed:$failed" >&2
	exit 1
fi
