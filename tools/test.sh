#!/bin/sh
# Tests packages: tools/test.sh ./...
# With the race detector, but for those that send one statement after the other to a
# cluster: it has little to find there and makes them a third longer. They run beside
# the others. RACE=all leaves none out.
set -u

packages=$(${GO:-go} list "$@") || exit 1
quiet=""
raced=""
for p in $packages; do
	case "${RACE:-} $p" in
	" weft/integration/analytics" | " weft/integration/routing" | " weft/integration/select" | " weft/integration/write" | " weft/schema") quiet="$quiet $p" ;;
	*) raced="$raced $p" ;;
	esac
done

code=0
beside=""
if [ -n "$quiet" ]; then
	${GO:-go} test -p 1 -timeout 30m $quiet &
	beside=$!
fi
if [ -n "$raced" ]; then
	${GO:-go} test -race -p "${AT_ONCE:-2}" -timeout 30m $raced || code=1
fi
if [ -n "$beside" ]; then
	wait "$beside" || code=1
fi
exit $code
