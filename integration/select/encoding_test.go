package selects

import (
	"testing"

	"weft/integration/pair"
)

// TestEncoding orders text that comes in another encoding than the server's: é
// is before € there, and after it in WIN1252.
func TestEncoding(t *testing.T) {
	w := open(t, settings[1])
	w.everywhere(t, "create table enc (k int8, s text)")
	w.everywhere(t, `insert into enc select i, (array['€', 'é', 'œ', 'ž', 'a', '~', 'Ÿ', 'ÿ'])[1 + i % 8] from generate_series(1, 64) i`)
	if !*undeclared {
		w.Weft.Must(t, "select weft.shard_table('enc', 'k')")
	}
	defer w.everywhere(t, "drop table enc")
	defer w.everywhere(t, "reset client_encoding")
	w.everywhere(t, "set client_encoding = 'WIN1252'")
	for _, sql := range []string{
		"select s, k from enc order by s, k",
		`select s, k from enc order by s collate "C" desc, k limit 20`,
		"select distinct s from enc order by s",
		"select s, count(*) from enc group by s order by s",
		"select max(s), min(s) from enc",
	} {
		for _, m := range pair.Modes {
			if diff, _, got := w.Run(m, sql, nil); diff != "" || got.Code != "" {
				t.Errorf("%s (%s): %s%s", sql, m, diff, got.Message)
			}
		}
	}
}
