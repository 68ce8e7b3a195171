package proxy

import "testing"

func TestLogged(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 'a secret', 7, $1": "SELECT $2, $3, $1",
		"SELECT 'open":             "not readable",
	} {
		if got := logged(sql); got != want {
			t.Errorf("%s: %s", sql, got)
		}
	}
}
