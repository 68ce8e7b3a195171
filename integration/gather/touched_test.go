package gather

import (
	"fmt"
	"strings"
	"testing"
)

// TestTouched: what functions leave in the sessions of the shards they run on, nobody
// else meets, and transactions go on without what they have deallocated.
func TestTouched(t *testing.T) {
	w := newWorld(t, "g_touched", nil)
	c := w.conn()
	for _, sql := range []string{
		`create function touch(x bigint) returns bigint language plpgsql as $$ begin
			perform set_config('work_mem', '777kB', false); execute 'deallocate all'; return x; end $$`,
		"create function touching() returns trigger language plpgsql as $$ begin perform touch(1); return new; end $$",
		"create trigger touching before insert on oth for each row execute function touching()",
	} {
		must(t, c, sql)
	}
	var keys []int64 // one of each shard
	for shard := range shards {
		keys = append(keys, w.keyOn(shard, 0))
	}
	var each []string // a statement for each shard
	for _, k := range keys {
		each = append(each, fmt.Sprintf("update oth set v = touch(%d) where k = %[1]d", k))
	}
	for _, text := range []string{
		"select count(touch(k)) from oth",
		"update oth set v = touch(v)",
		"update oth set v = touch(v)",
		"insert into oth select 10000 + i, i from generate_series(1, 30) i",
		"begin;" + strings.Join(each, ";") + ";commit",
		"begin;" + strings.Join(each, ";") + ";commit",
		"begin;" + strings.Join(each, ";") + ";rollback",
		"begin; update oth set v = touch(v); select count(*) from big; commit",
	} {
		sender := w.conn()
		for sql := range strings.SplitSeq(text, ";") {
			must(t, sender, sql)
		}
		for range 3 {
			other := w.conn()
			for _, k := range keys {
				if got := value[string](t, other, fmt.Sprintf("select current_setting('work_mem') from oth where k = %d", k)); got != "4MB" {
					t.Errorf("after %s another client has work_mem %s", text, got)
				}
			}
			must(t, other, "begin")
			for _, k := range keys {
				must(t, other, "update oth set v = 1 where k = $1", k)
			}
			must(t, other, "commit")
		}
		_ = sender.Close(t.Context())
	}
}
