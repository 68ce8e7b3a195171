package routing

import (
	"fmt"
	"testing"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

// TestSequenceSetElsewhere: a statement over several shards that sets a sequence to the largest id, as many tools do after an import,
// makes both proxies forget the values that they have drawn in advance.
func TestSequenceSetElsewhere(t *testing.T) {
	db := database(t, "sequence_set")
	a := pair.Connect(t, harness.Weft(t), db, "postgres")
	b := pair.Connect(t, harness.StartWeft(t, func(*config.Config) {}), db, "postgres")
	a.Must(t, "create table items (k int not null, id bigserial, primary key (k, id))")
	a.Must(t, "select weft.shard_table('items', 'k')")
	for i, set := range []string{
		"select setval('items_id_seq', (select max(id) from items))", "select setval(pg_get_serial_sequence('items', 'id'), coalesce(max(id), 1)) from items",
		"select setval('items_id_seq', max(id), true) from items having count(*) > 0", "explain (analyze, costs off, timing off, summary off) select setval('items_id_seq', max(id)) from items",
	} {
		for _, m := range []pair.Mode{pair.Simple, pair.Prepared} {
			for range 40 { // so that both have drawn some in advance
				a.Must(t, "insert into items (k) values (1), (2)")
				b.Must(t, "insert into items (k) values (3), (4)")
			}
			to := (i + 1) * 1_000_000
			if m == pair.Prepared {
				to += 500_000
			}
			a.Must(t, fmt.Sprintf("insert into items values (5, %d)", to))
			if x := b.Ask(m, set, nil, nil); x.Code != "" {
				t.Errorf("%s: %s %s", set, x.Code, x.Message)
				continue
			}
			for _, p := range []*pair.Peer{a, b} {
				x := p.Must(t, fmt.Sprintf("insert into items (k) values (6) returning id > %d", to))
				if got := x.Results[0].Rows[0]; got != "t | " {
					t.Errorf("%s, %s: a value from before", set, m)
				}
			}
		}
	}
	x := a.Must(t, "select count(*) - count(distinct id) from items")
	if got := x.Results[0].Rows[0]; got != "0 | " {
		t.Errorf("%sids came twice", got)
	}
}
