#!/bin/sh
# The inner loop: formatting, vet, the tests that need no server, and one cluster. Two
# minutes on an idle machine with two cores and a warm cache; make test has the rest.
set -u

code=0
step() {
	echo "== $*"
	"$@" || { code=1; echo "failed: $*"; }
}

unformatted=$(${GO:-go} tool gofumpt -l .)
if [ -n "$unformatted" ]; then
	code=1
	echo "not formatted:"
	echo "$unformatted"
fi
step ${GO:-go} vet ./...

# Packages that start servers, or take long for another reason, are left to make test.
quick=$(${GO:-go} list ./... | grep -v -e '/integration' -e '/schema$' -e '/proxy$' -e '/bench$' -e '/dev$' -e '/server$' \
	-e '/cmd/' -e '/deploy' -e '/pgserver' -e '/finish$' -e '/pool$' -e '/directory')
step ${GO:-go} test $quick
step ${GO:-go} test ./proxy -short -run '^Test[A-M]'
step ${GO:-go} test ./integration/wire -run '^(TestWeft|TestRouted)$'
exit $code
