package integration

import (
	"strconv"
	"testing"
	"time"

	"weft/config"
	"weft/integration/harness"
)

// TestMergedStream passes a large result of all shards through a merge and
// looks at the weft program's memory meanwhile: it may hold a part of each
// shard's rows, never all of one's.
func TestMergedStream(t *testing.T) {
	const (
		rows  = 120_000
		width = 900
		most  = 64 << 20
	)
	p := harness.StartProgram(t, func(*config.Config) {})
	const database = "merged"
	p.CreateDatabase(t, database)
	conn := p.Connect(t, "postgres", "dbname="+database)
	mustExec(t, conn, "create table big (id bigint primary key, v text not null)")
	mustExec(t, conn, "insert into big select i, repeat('x', "+strconv.Itoa(width)+") from generate_series(1, "+strconv.Itoa(rows)+") i")
	mustExec(t, conn, "select weft.shard_table('big', 'id', online => false)")
	before := p.RSS(t)
	peak := p.WatchRSS(t)
	began := time.Now()
	var n, bytes int64
	res := conn.PgConn().Exec(within(t, time.Minute), "select id, v from big order by id")
	for res.NextResult() {
		for rr := res.ResultReader(); rr.NextRow(); {
			n++
			if id, err := strconv.ParseInt(string(rr.Values()[0]), 10, 64); err != nil || id != n {
				t.Fatalf("row %d has id %q", n, rr.Values()[0])
			}
			bytes += int64(len(rr.Values()[1]))
		}
	}
	if err := res.Close(); err != nil || n != rows || bytes != rows*width {
		t.Fatalf("%d rows, %d bytes: %v", n, bytes, err)
	}
	grown := peak() - before
	t.Logf("%d MB in %v, memory grew by %d KiB", bytes>>20, time.Since(began).Round(time.Millisecond), grown>>10)
	if grown > most {
		t.Errorf("memory grew by %d MiB for a result of %d MB", grown>>20, bytes>>20)
	}
}
