#!/bin/bash
# pg_dump of sharded tables, in its formats, and the way back through weft.
. ./check.sh
shop

# Without an option that speaks of weft: what is weft's own is not in a dump (docs/writes.md).
dump() { pg_dump --no-sync "$@"; }

# clean takes out what differs from one dump to the next, and what is not part of it.
clean() { sed -e '/^\\\(un\)\?restrict /d' -e '/^-- \(Started\|Completed\) on/d' -e '/^--/d' -e '/^$/d' -e "s/$PGDATABASE/<database>/g"; }
lines() { clean | LC_ALL=C sort; } # rows come in no order
sorted() { dump "$@" | lines; }
schema() { dump -s | clean; }

check "schema only" schema
check "all" sorted
check "inserts" sorted --inserts -t orders -t products
check "rows per insert" sorted --rows-per-insert=100 -t products -t notes
check "column inserts" sorted --column-inserts -t customers
check "data only" sorted -a -t users -t events
check "one table" sorted -t items
check "one schema" sorted -n public
check "another name" env PGAPPNAME=nightly pg_dump --no-sync -s -f /dev/null
names() { PGAPPNAME=nightly dump -s | grep -i weft || true; }
equal "nothing of weft's" "" names
roles() { pg_dumpall --no-sync -r --no-role-passwords | clean | grep -c "^CREATE ROLE $PGUSER;"; }
check "roles" roles

dump >"$OUT/plain.sql"
dump -Fc -f "$OUT/custom"
dump -Ft -f "$OUT/tar"
rm -rf "$OUT/files"
check "directory" dump -Fd -j 2 -f "$OUT/files" # sessions share a snapshot
contents() { pg_restore -l "$OUT/custom" | grep -v '^;' | sed 's/^[0-9]*; [0-9]* [0-9]* //' | sort; }
check "contents" contents
dump -a -Fc -f "$OUT/data" # in an order that foreign keys allow
want=$(lines <"$OUT/plain.sql")

# restore FORMAT OPTIONS…: all of an archive.
restore() {
	local file=$OUT/$1
	shift
	pg_restore --no-owner --exit-on-error -d "$PGDATABASE" "$@" "$file"
}

# back NAME COMMAND…: everything is dropped, restored and dumped again. The tables come back as any new ones
# do: on the home shard.
back() {
	local name=$1
	shift
	check "$name after drop" q -c "drop view spending; drop table customers, orders, items, products, users, events, notes; drop function twice; drop type mood, address; drop domain mail"
	check "$name" "$@"
	equal "$name again" "$want" sorted
}
back "restore plain" psql -X -q -o /dev/null -v ON_ERROR_STOP=1 -f "$OUT/plain.sql"
back "restore custom" restore custom
check "declare again" $DECLARE $declarations
equal "declared again" "$want" sorted
back "restore directory" restore files -j 3
back "restore tar" restore tar -1

# Data alone, into tables that are sharded.
check "declare for data" $DECLARE $declarations
check "truncate" q -c "truncate customers, orders, items, users, events, products, notes"
check "restore data" restore data
equal "restore data again" "$want" sorted
exit $failed
