package throttle

import (
	"testing"
)

// A key of several columns is limited as it is shown, and no other key is.
func TestSeveralColumns(t *testing.T) {
	w := newWorld(t, "columns", plain)
	c := w.conn(0, "postgres")
	w.must(c, "create table entry (id bigint, day text, n bigint not null default 0, primary key (id, day))")
	w.must(c, "select weft.shard_table('entry', 'id, day', vindex => 'composite', params => '{\"bits\": \"8\"}')")
	w.must(c, "insert into entry select i, d from generate_series(1, 20) i, unnest(array['monday', 'a, b']) d")
	w.throttle(c, `table_name => 'entry', key => '(7,"a, b")', refuse => true, max_wait => '0', duration => '1h'`)
	_, err := c.Exec(t.Context(), "select n from entry where id = 7 and day = 'a, b'")
	if pe := w.refused(err); pe.Message != `key (7,"a, b") of entry is closed to statements for now` {
		t.Errorf("%+v", pe)
	}
	_, err = c.Exec(t.Context(), "update entry set n = n + 1 where (id, day) = ($1, $2)", 7, "a, b")
	w.refused(err)
	w.must(c, "select n from entry where id = 7 and day = 'monday'")
	w.must(c, "select n from entry where id = 8 and day = 'a, b'")
	for key, want := range map[string]string{"(7)": "22023", "7": "22P02", "(7,a,b)": "22023", "(seven,monday)": "22P02", `(7,"monday)`: "22P02"} {
		if _, err := c.Exec(t.Context(), "select weft.throttle(table_name => 'entry', key => $1, refuse => true, duration => '1h')", key); code(err) != want {
			t.Errorf("%s: %v", key, err)
		}
	}
	// What is hot is shown in the same form.
	w.await("the key is shown", func() (any, bool) {
		for range 200 {
			w.must(c, "select n from entry where id = 9 and day = 'monday'")
		}
		rows := w.rows(c, "select key from weft.hot_keys where key = '(9,monday)'")
		return w.rows(c, "select key from weft.hot_keys"), len(rows) == 1
	})
}
