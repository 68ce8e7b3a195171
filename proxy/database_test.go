package proxy_test

import (
	"strings"
	"testing"

	"weft/pool"
)

// TestTemplate: a database can be copied when nobody is in it, though weft
// keeps backends there, and not while a client is.
func TestTemplate(t *testing.T) {
	source := database(t, "CREATE TABLE t AS SELECT 'copied' AS v")
	w := startWeft(t, pool.Config{MaxPerShard: 4})
	copied := source + "_copy"
	admin, in := dial(t, w.addr, "postgres"), dial(t, w.addr, source)
	in.exec("SELECT 1")
	const busy = "error 55006 source database"
	if got := admin.query("CREATE DATABASE " + copied + " TEMPLATE " + source); !strings.HasPrefix(got, busy) {
		t.Errorf("with a client in it: %q", got)
	}
	in.nc.Close()
	admin.exec("CREATE DATABASE " + copied + " TEMPLATE " + source)
	if got := dial(t, w.addr, copied).exec("SELECT v FROM t"); got != "copied" {
		t.Errorf("the copy holds %q", got)
	}
	// Without a TEMPLATE it is template1 that must be empty.
	in = dial(t, w.addr, "template1")
	in.exec("SELECT 1")
	in.nc.Close()
	admin.exec("CREATE DATABASE " + source + "_plain")
}
