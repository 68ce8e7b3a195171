#!/bin/sh
# Tests packages: tools/test.sh ./...
# With the race detector, but for those in which it has little to find and makes tests
# much longer: packages that send one statement after the other to a cluster, those whose
# clients must be fast enough to overload a shard, those that kill processes and wait, and pure
# ones. Of these packages the tests with many clients at once run with it, see crowded. The longest
# packages run beside the others. RACE=all leaves none out. go vet is a matter of make lint.
set -u

# in_memory makes the servers keep their data in memory, if there is room: the tests make
# hundreds of databases of three hundred files each, and a file system on a disk that has just lost as
# many files looks long for a free inode. A crash of the machine, which would tell the difference, is
# not among the tests. The place keeps its name, or no test's result would be taken from the cache.
# What a run that was killed has left there is removed before the room is measured: it may be what fills
# the room. Programs that go builds stay on the disk.
in_memory() {
	place=/dev/shm/weft-test-$(id -u)
	mkdir -m 755 "$place" 2>/dev/null
	[ -O "$place" ] && [ ! -L "$place" ] || return # somebody else's, or no such memory
	exec 9>"$place/lock" || return
	if flock -n 9 2>/dev/null; then # no other run uses it
		find "$place" -mindepth 1 -maxdepth 1 ! -name lock ! -name 'weft-template-*' -exec rm -rf {} +
	fi
	if roomy && flock -s 9 2>/dev/null && executes "$place"; then
		export GOTMPDIR="${GOTMPDIR:-/tmp}" TMPDIR="$place"
	else
		exec 9>&-
	fi
}

# roomy says whether the memory has room for the servers of a run.
roomy() {
	free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
	memory=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo 2>/dev/null)
	[ "${free:-0}" -ge 12000000 ] && [ "${memory:-0}" -ge 16000000 ]
}

# executes says whether programs in a directory may be executed.
executes() {
	printf '#!/bin/sh\n' >"$1/program" && chmod 755 "$1/program" && "$1/program" 2>/dev/null
}
[ -n "${TMPDIR:-}" ] || in_memory

# At Go's own setting a tenth of what a test with the race detector computes is garbage collection.
export GOGC="${GOGC:-400}"
# A program with the race detector waits for a second when it ends, unless told otherwise.
export GORACE="${GORACE:-atexit_sleep_ms=0}"

packages=$(${GO:-go} list "$@") || exit 1
long=""
waits=""
plain=""
raced=""
for p in $packages; do
	case "${RACE:-} $p" in
	" weft/integration/routing" | " weft/integration/select" | " weft/integration/crash") long="$long $p" ;;
	" weft/schema") waits="$waits $p" ;; # it waits more than it computes
	" weft/integration/analytics" | " weft/integration/write" | " weft/integration/security" | " weft/integration/identity" | " weft/integration/copying" | " weft/integration/queue" | " weft/integration/throttle" | " weft/integration/heat" | " weft/integration/gather" | " weft/integration/failover" | " weft/integration/advise" | " weft/integration/importing" | " weft/integration/shards" | " weft/integration/restore" | " weft/integration/durable" | " weft/integration/settle" | " weft/integration/lossy" | " weft/integration/standby" | " weft/integration/tx" | " weft/integration/move" | " weft/integration/wire" | " weft/integration/plpgsql") plain="$plain $p" ;;
	" weft/bench" | " weft/program" | " weft/stream" | " weft/planner" | " weft/vindex" | " weft/catalog" | " weft/heat/verdict" | " weft" | " weft/docs" | " weft/advise" | " weft/executor" | " weft/datum" | " weft/heat/trend") plain="$plain $p" ;;
	*) raced="$raced $p" ;;
	esac
done

# A run links a hundred test binaries. Without symbols and what debuggers read that takes less than two thirds of the processor time, and with gold
# three quarters of what it takes with ld.
linker="-ldflags=-s -w"
if command -v ld.gold >/dev/null && echo 'int main(void) { return 0; }' | ${CC:-gcc} -fuse-ld=gold -xc -o /dev/null - 2>/dev/null; then
	linker="-ldflags=-s -w -extldflags=-fuse-ld=gold"
fi

# Each package that runs weft as a program would link it, which takes as much processor time as many of their tests.
case "$packages" in
*weft/integration*)
	${GO:-go} build -buildvcs=false "$linker" -tags weftstop -o bin/weft-test ./cmd/weft && export WEFT_TEST_PROGRAM="$PWD/bin/weft-test"
	;;
esac

# tested runs go test with options over packages, if there are any.
tested() {
	options=$1
	shift
	[ $# = 0 ] || ${GO:-go} test -vet=off "$linker" $options -timeout 60m "$@"
}

# crowded runs those tests of a package with the race detector that have many clients at once, if the package
# is among those that run without it.
crowded() {
	case " $plain $long " in
	*" $1 "*) tested "-race -run ^($2)\$" "$1" ;;
	esac
}

# beside tests what waits more than it computes, and then tests with many clients.
beside() {
	failed=0
	tested "-p 1" $waits || failed=1
	crowded weft/integration/tx 'TestStress|TestCrowd|TestManyDeadlocks' || failed=1
	crowded weft/integration/move 'TestMoveUnderLoad|TestDeclareUnderLoad' || failed=1
	crowded weft/integration/crash TestLoad || failed=1
	return $failed
}

code=0
tested "-p 1" $long &
longest=$!
tested "-race -p ${AT_ONCE:-2}" $raced || code=1
beside &
waiting=$!
tested "-p ${AT_ONCE:-2}" $plain || code=1
crowded weft/integration/gather 'TestCancelAnywhere|TestCrossed|TestSmallPool|TestShared' || code=1
crowded weft/integration/heat 'TestTurns|TestConvoy|TestHotKey' || code=1
crowded weft/integration/plpgsql 'TestDoEnds|TestDoExtended' || code=1
# Short of make movefuzz: statements are compared while buckets move.
case " $plain " in
*" weft/integration/write "*) ${GO:-go} test -vet=off "$linker" -timeout 60m weft/integration/write -run '^TestRandom$' -args -moving -for 8s || code=1 ;;
esac
wait "$waiting" || code=1
wait "$longest" || code=1
exit $code
