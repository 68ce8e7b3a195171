#!/bin/sh
# Tests packages: tools/test.sh ./...
# With the race detector, but for those in which it has little to find and makes tests
# much longer: packages that send one statement after the other to a cluster, and
# pure ones. The longest of them run beside the others. RACE=all leaves none out.
set -u

packages=$(${GO:-go} list "$@") || exit 1
long=""
waits=""
plain=""
raced=""
for p in $packages; do
	case "${RACE:-} $p" in
	" weft/integration/routing" | " weft/integration/select") long="$long $p" ;;
	" weft/schema") waits="$waits $p" ;; # it waits more than it computes
	" weft/integration/analytics" | " weft/integration/write" | " weft/integration/security" | " weft/integration/identity" | " weft/integration/copying" | " weft/planner" | " weft/vindex" | " weft/catalog") plain="$plain $p" ;;
	*) raced="$raced $p" ;;
	esac
done

# tested runs go test with options over packages, if there are any.
tested() {
	options=$1
	shift
	[ $# = 0 ] || ${GO:-go} test $options -timeout 30m "$@"
}

code=0
tested "-p 1" $long &
beside=$!
tested "-race -p ${AT_ONCE:-2}" $raced || code=1
tested "-p 1" $waits &
waiting=$!
tested "-p ${AT_ONCE:-2}" $plain || code=1
wait "$waiting" || code=1
wait "$beside" || code=1
exit $code
