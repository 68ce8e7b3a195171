#!/bin/bash
# pg_dump of sharded tables, in its formats, and the way back through weft.
. ./check.sh
shop

# The schema weft is weft's own, and so are the triggers of lookups, which -N does not leave out (docs/writes.md).
dump() { pg_dump --no-sync -N weft "$@"; }
own='weft_lookup_\|TRIGGER public users weft '
without() { awk '/^-- Name: /{skip = /weft_lookup_|; Type: TRIGGER; / && /weft/} !skip'; }

# clean takes out what differs from one dump to the next, and what is not part of it.
clean() { sed -e '/^\\\(un\)\?restrict /d' -e '/^-- \(Started\|Completed\) on/d' -e '/^--/d' -e '/^$/d' -e "s/$PGDATABASE/<database>/g"; }
lines() { without | clean | LC_ALL=C sort; } # rows come in no order
sorted() { dump "$@" | lines; }
schema() { dump -s | without | clean; }

check "schema only" schema
check "all" sorted
check "inserts" sorted --inserts -t orders -t products
check "rows per insert" sorted --rows-per-insert=100 -t products -t notes
check "column inserts" sorted --column-inserts -t customers
check "data only" sorted -a -t users -t events
check "one table" sorted -t items

dump | without >"$OUT/plain.sql"
dump -Fc -f "$OUT/custom"
dump -Ft -f "$OUT/tar"
rm -rf "$OUT/files"
# Not with -j: a snapshot that sessions share is one shard's only (docs/writes.md).
check "directory" dump -Fd -f "$OUT/files"
contents() { pg_restore -l "$OUT/custom" | grep -v "^;\|$own" | sed 's/^[0-9]*; [0-9]* [0-9]* //' | sort; }
check "contents" contents
dump -a -Fc -f "$OUT/data" # in an order that foreign keys allow
want=$(lines <"$OUT/plain.sql")

# restore FORMAT OPTIONS…: all of an archive but what is weft's own.
restore() {
	local file=$OUT/$1
	shift
	pg_restore -l "$file" | grep -v "$own" >"$OUT/list"
	pg_restore --no-owner --exit-on-error -L "$OUT/list" -d "$PGDATABASE" "$@" "$file"
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
