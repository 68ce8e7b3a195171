#!/bin/bash
# pgbench's own scripts, on tables that are sharded and on tables that are not.
. ./check.sh

# bench SCRIPT MODE: 4 clients, 15 transactions each, all of which must succeed.
bench() {
	text=$(pgbench -n -b "$1" -M "$2" -c 4 -j 4 -t 15 2>&1) || { echo "$text"; return 1; }
	echo "$text" | grep -E 'query mode|actually processed|failed transactions: [1-9]'
	case $text in *'failed transactions: 0 '*) ;; *) return 1 ;; esac
}

# books: what the histories say must be what the balances say.
books() {
	q -c "select (select count(*) from pgbench_history),
		(select sum(abalance) from pgbench_accounts) = (select coalesce(sum(delta), 0) from pgbench_history),
		(select coalesce(sum(delta), 0) from pgbench_history where tid <> 0) - (select sum(tbalance) from pgbench_tellers) =
		(select coalesce(sum(delta), 0) from pgbench_history) - (select sum(bbalance) from pgbench_branches)"
}

runs() {
	for script in tpcb-like simple-update select-only; do
		for mode in simple extended prepared; do
			check "$1 $script $mode" bench $script $mode
		done
	done
	check "$1 books" books
}

# make STEPS: pgbench fills its tables. It tells times; and weft tells how far VACUUM is on its shards.
make() { pgbench -i -q -s 1 -I "$1" 2>&1 | sed -e 's/ *(.*)//; s/ [0-9.]* s\b//'; return "${PIPESTATUS[0]}"; }

check init make dtg
check "init keys" make vp
runs home
check declare $DECLARE pgbench_accounts=aid pgbench_tellers=tid pgbench_branches=bid pgbench_history=aid
check "declared books" books
check "declared init" make gv
runs sharded
check "drop" q -c "drop table pgbench_branches, pgbench_tellers, pgbench_accounts, pgbench_history"
check "init with foreign keys" make dtGvpf
exit $failed
