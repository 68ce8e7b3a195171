package selects

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestExplainReduced: a join of few rows with many is asked in two rounds, of which the
// second may visit shards that the first does not. EXPLAIN shows what is really sent.
func TestExplainReduced(t *testing.T) {
	w := open(t, settings[1])
	for _, test := range []struct {
		query string
		plain []string // what EXPLAIN says
		run   []string // what EXPLAIN ANALYZE says
	}{
		{
			"select a.id, q.s from a join q on q.id = a.id where a.k = 1",
			[]string{`Piece 2: SELECT \* FROM \(SELECT id, s FROM public.q\) p\(c1, c2\) WHERE c1 = ANY \(\$1\)`, `Keys: \$1 is id of piece 1, which is read before`, `(?s)Shard shard-3.*= ANY \(\$0\)`},
			[]string{`Keys: \$1 is id of piece 1`, `(?s)Shard shard-3  \(piece 2\).*= ANY \('\{`},
		},
		{
			"select a.id, q.s, a.n from q join a on a.n = q.n where q.k in (1, 2) and q.n > 1 order by 1 limit 3",
			[]string{`WHERE c\d = ANY \(\$1\)`, `Keys: `},
			[]string{`WHERE c\d = ANY \(\$1\)`, `Keys: `},
		},
		{
			"select count(*) from a join q on q.id = a.id left join h on h.n = q.n where a.k = 1",
			[]string{`Keys: `},
			[]string{`Keys: `},
		},
	} {
		for _, m := range []pair.Mode{pair.Simple, pair.Text, pair.Prepared} {
			for _, block := range []string{"", "begin isolation level repeatable read"} {
				for _, options := range []string{"(costs off)", "(analyze, costs off)"} {
					if block != "" {
						w.Weft.Must(t, block)
					}
					got := w.planOf(t, m, "explain "+options+" "+test.query)
					if block != "" {
						w.Weft.Must(t, "commit")
					}
					want := test.plain
					if strings.Contains(options, "analyze") {
						want = test.run
					}
					for _, re := range want {
						if !regexp.MustCompile(re).MatchString(got) {
							t.Errorf("%s %s (%s, %q): no %s in\n%s", options, test.query, m, block, re, got)
						}
					}
				}
			}
			// Under READ COMMITTED a block has no snapshot that holds for two rounds.
			w.Weft.Must(t, "begin")
			got := w.planOf(t, m, "explain (analyze, costs off) "+test.query)
			w.Weft.Must(t, "commit")
			if strings.Contains(got, "Keys: ") {
				t.Errorf("%s (%s): reduced in a block:\n%s", test.query, m, got)
			}
		}
		var plans []struct{ Plan map[string]any }
		text := w.planOf(t, pair.Simple, "explain (analyze, format json) "+test.query)
		if err := json.Unmarshal([]byte(text), &plans); err != nil {
			t.Errorf("%v:\n%s", err, text)
		}
	}
}
