package identity

import (
	"errors"
	"strconv"

	"weft/primary"
)

// Query asks a database who it is. It works for every role, with every search_path,
// and does not fail where nothing is stamped. Its row is for Read.
const Query = `SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system()), ` +
	`pg_catalog.obj_description(pg_catalog.to_regnamespace('weft'), 'pg_namespace'), ` +
	`pg_catalog.current_setting('max_connections'), pg_catalog.current_setting('superuser_reserved_connections'), ` +
	`pg_catalog.current_setting('reserved_connections', true), ` +
	`r.recovery, CASE WHEN r.recovery THEN 0 ELSE ` + primary.TimelineSQL + ` END ` +
	`FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovery OFFSET 0) r`

// Found is what a database of a server has answered.
type Found struct {
	System string
	// Stamp is the database's. Zero where there is none.
	Stamp   Stamp
	Stamped bool
	// Recovery says that the server is a standby.
	Recovery bool
	// Timeline is that of a primary, and 0 of a standby.
	Timeline uint32
	// Connections is how many connections the server takes from those who are not
	// superusers.
	Connections int
}

// Generation returns what the server has said of its generation. It does not say the fork.
func (f Found) Generation() primary.Generation {
	return primary.Generation{System: f.System, Timeline: f.Timeline}
}

// Read reads the answer to Query.
func Read(rows [][]string) (Found, error) {
	if len(rows) != 1 || len(rows[0]) != 7 {
		return Found{}, errors.New("the server does not say who it is")
	}
	r := rows[0]
	f := Found{System: r[0], Recovery: r[5] == "t"}
	f.Stamp, f.Stamped = Parse(r[1])
	n, err := strconv.Atoi(r[2])
	if err != nil {
		return f, err
	}
	timeline, err := strconv.ParseUint(r[6], 10, 32)
	if err != nil {
		return f, err
	}
	f.Timeline = uint32(timeline)
	for _, reserved := range r[3:5] {
		if k, err := strconv.Atoi(reserved); err == nil { // the last one came with PostgreSQL 16
			n -= k
		}
	}
	f.Connections = n
	return f, nil
}
