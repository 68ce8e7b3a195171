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

# The drivers' suites, an example and the tests of the dashboard are modules of their own; the tools are this one's.
module() {
	checker=$(go tool -n staticcheck) || return 1
	cd "$1" || return 1
	go vet ./... && "$checker" ./... && go mod tidy -diff
	status=$?
	cd - >/dev/null || return 1
	return $status
}

check formatted
check go vet ./...
check go tool staticcheck ./...
check go mod tidy -diff
check module integration/drivers/go
check module examples/go
check module integration/dashboard

if [ -n "$failed" ]; then
	echo "failed:$failed" >&2
	exit 1
fi
