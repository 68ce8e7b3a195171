//go:build regress

package regress

import "bytes"

// difference is one between direct's and weft's output that is no bug.
type difference struct {
	why          string
	direct, weft string
}

// accepted are the differences that come from sharing server connections
// itself, by script. Whether they show may depend on what a connection was
// used for before.
var accepted = map[string][]difference{
	"guc": {{
		why: "a library stays loaded in the server process, whoever loaded it",
		direct: `SET plpgsql.extra_foo_warnings = true;  -- allowed if plpgsql is not loaded yet
LOAD 'plpgsql';  -- this will throw a warning and delete the variable
WARNING:  invalid configuration parameter name "plpgsql.extra_foo_warnings", removing it
DETAIL:  "plpgsql" is now a reserved prefix.
`,
		weft: `SET plpgsql.extra_foo_warnings = true;  -- allowed if plpgsql is not loaded yet
ERROR:  invalid configuration parameter name "plpgsql.extra_foo_warnings"
DETAIL:  "plpgsql" is a reserved prefix.
LOAD 'plpgsql';  -- this will throw a warning and delete the variable
`,
	}},
	"stats": {{
		why: "a new client need not be a new session of the server",
		direct: `SELECT sessions > :db_stat_sessions FROM pg_stat_database WHERE datname = (SELECT current_database());
 ?column? 
----------
 t
`,
		weft: `SELECT sessions > :db_stat_sessions FROM pg_stat_database WHERE datname = (SELECT current_database());
 ?column? 
----------
 f
`,
	}},
}

// accept gives weft's output direct's words where the difference is accepted.
func accept(script string, weft []byte) []byte {
	for _, d := range accepted[script] {
		weft = bytes.Replace(weft, []byte(d.weft), []byte(d.direct), 1)
	}
	return weft
}
