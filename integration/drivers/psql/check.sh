# What the suites of this folder share: to be read by them.
set -u
failed=0
began=$(( ${EPOCHREALTIME/./} / 1000 ))

# finish NAME CODE TEXT: prints a check. Its answer is a digest of the text, which the runner compares.
finish() {
	echo "# $(( ${EPOCHREALTIME/./} / 1000 - began )) ms"
	began=$(( ${EPOCHREALTIME/./} / 1000 ))
	printf '%s\n' "$3" >"$OUT/$1"
	if [ "$2" = 0 ]; then
		echo "ok $1: $(printf '%s' "$3" | cksum)"
	else
		failed=1
		echo "not ok $1: code $2: $(printf '%s' "$3" | tail -n 3 | tr '\n' ' ')"
	fi
}

# check NAME COMMAND…: what the command prints must be the same on both targets, but for names of servers.
check() {
	local name=$1 text code
	shift
	text=$("$@" 2>&1)
	code=$?
	finish "$name" "$code" "$(printf '%s' "$text" | sed "s/\b$PGPORT\b/<port>/g; s/\"$PGDATABASE\"/<database>/g; s/PID [0-9]*/PID/; /^SSL connection/d")"
}

# equal NAME WANT COMMAND…: the command must print this.
equal() {
	local name=$1 want=$2 text code
	shift 2
	text=$("$@" 2>&1)
	code=$?
	[ "$text" = "$want" ] || code=1
	finish "$name" "$code" "$text"
}

# script NAME: psql runs what comes on standard input, and goes on after errors.
script() { check "$1" psql -X -q -f -; }

# fails NAME COMMAND…: the command must fail, in the same way on both.
fails() {
	local name=$1
	shift
	check "$name" sh -c '! "$@"' sh "$@"
}

q() { psql -X -qAt -v ON_ERROR_STOP=1 "$@"; }

declarations="products=reference customers=id orders=customer_id items=customer_id users=id events=customer_id"

# shop makes the tables and fills them.
shop() {
	check schema q -f schema.sql
	check declare $DECLARE $declarations
	check fill q -f fill.sql
}
