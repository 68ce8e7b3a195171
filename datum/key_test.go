package datum

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestCompareAgreesWithServer sorts random values of each type on the server and
// walks along them.
func TestCompareAgreesWithServer(t *testing.T) {
	conn := connect(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, typ := range types {
		seen := map[string]string{} // canonical text → one spelling of it
		var literals []string
		for len(literals) < 1000 {
			s := spell(rnd, typ.oid)
			if k, err := (Column{typ.oid, -1}).Match(Literal([]byte(s))); err == nil {
				literals = append(literals, s)
				if first, ok := seen[string(k.AppendText(nil))]; ok {
					k2, err := Column{typ.oid, -1}.Match(Literal([]byte(first)))
					if err != nil || k.Compare(k2) != 0 {
						t.Errorf("%s %q and %q are spelled alike but differ", typ.name, s, first)
					}
				}
				seen[string(k.AppendText(nil))] = s
			}
		}
		collate := ""
		if typ.oid == Text || typ.oid == Varchar || typ.oid == Bpchar {
			collate = `COLLATE "C"`
		}
		rows, _ := conn.Query(context.Background(), "SELECT v, rank() OVER (ORDER BY v::"+typ.name+" "+collate+") FROM unnest($1::text[]) v ORDER BY 2", literals)
		var s string
		var rank, lastRank int
		var last Key
		_, err := pgx.ForEachRow(rows, []any{&s, &rank}, func() error {
			k, err := Column{typ.oid, -1}.Match(Literal([]byte(s)))
			if err != nil {
				return err
			}
			want := 1
			if rank == lastRank {
				want = 0
			}
			if lastRank > 0 && (k.Compare(last) != want || last.Compare(k) != -want) {
				t.Errorf("%s: %q against %q: got %d and %d, want %d", typ.name, s, last.AppendText(nil), k.Compare(last), last.Compare(k), want)
			}
			last, lastRank = k, rank
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if null := (Key{}); null.Compare(last) != 1 || last.Compare(null) != -1 || null.Compare(null) != 0 {
			t.Errorf("%s: NULL does not come last", typ.name)
		}
	}
}
