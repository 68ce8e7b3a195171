package checkup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something that will hurt one day
	Problem Level = "problem" // something that hurts now
)

// Finding is one thing that was found.
type Finding struct {
	Level Level  `json:"level"`
	Area  string `json:"area"`
	// Where is the shard, server or file; empty for the cluster.
	Where string `json:"where,omitempty"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// The bounds of what is fine.
const (
	oldest       = 15 // major version
	maxSkew      = time.Second
	soon         = 30 * 24 * time.Hour // a certificate ends
	pointAge     = 25 * time.Hour
	preparedEach = 80 // max_prepared_transactions for each proxy
	defaultQuota = 2 << 30
)

// examiner collects the findings of one area after the other.
type examiner struct {
	*Facts
	out  []Finding
	area string
}

// Examine returns what is found, area by area; in an area the worst comes first.
func Examine(f *Facts) []Finding {
	e := &examiner{Facts: f}
	for _, a := range []struct {
		name string
		look func() (fine string)
	}{
		{"reachable", e.reachable},
		{"identity", e.identity},
		{"versions", e.versions},
		{"locales", e.locales},
		{"extensions", e.extensions},
		{"connections", e.connections},
		{"two-phase", e.prepared},
		{"clocks", e.clocks},
		{"certificates", e.certificates},
		{"disks", e.disks},
		{"roles", e.roles},
		{"drift", e.drift},
		{"durability", e.durability},
		{"backups", e.backups},
		{"proxies", e.proxies},
		{"etcd", e.etcd},
	} {
		e.area = a.name
		from := len(e.out)
		fine := a.look()
		if len(e.out) == from && fine != "" {
			e.out = append(e.out, Finding{Level: OK, Area: a.name, What: fine})
		}
		slices.SortStableFunc(e.out[from:], func(a, b Finding) int { return cmp.Compare(rank(b.Level), rank(a.Level)) })
	}
	return e.out
}

func rank(l Level) int {
	switch l {
	case Problem:
		return 2
	case Warning:
		return 1
	}
	return 0
}

func (e *examiner) add(l Level, where, do, what string, args ...any) {
	e.out = append(e.out, Finding{Level: l, Area: e.area, Where: where, What: fmt.Sprintf(what, args...), Do: do})
}

// place names a server.
func (s *Server) place() string { return s.Shard + " at " + s.Address }

// up returns the servers that have answered.
func (e *examiner) up() []*Server {
	var out []*Server
	for i := range e.Servers {
		if e.Servers[i].Err == "" {
			out = append(out, &e.Servers[i])
		}
	}
	return out
}

// primaries returns the primaries that have answered, and that of the home shard, nil if it has not.
func (e *examiner) primaries() (list []*Server, home *Server) {
	for _, s := range e.up() {
		if !s.Standby {
			list = append(list, s)
			if s.Shard == e.Home {
				home = s
			}
		}
	}
	return list, home
}

func (e *examiner) reachable() string {
	alive := map[string]bool{}
	for _, s := range e.up() {
		alive[s.Shard] = alive[s.Shard] || !s.Standby
	}
	for i := range e.Servers {
		s := &e.Servers[i]
		switch {
		case s.Err != "" && alive[s.Shard]:
			e.add(Warning, s.place(), "Start the server, or take it out of the shard's hosts.", "does not answer: %s", s.Err)
		case s.Err != "":
			e.add(Problem, s.place(), "Start the server; weft status shows when it answers.", "does not answer, and the shard has no primary: %s", s.Err)
		case !alive[s.Shard]:
			e.add(Problem, s.place(), "Start the primary, or promote a standby.", "is a standby, and the shard has no primary")
		}
	}
	return fmt.Sprintf("%d of %d servers answer", len(e.up()), len(e.Servers))
}

func (e *examiner) identity() string {
	for _, m := range e.Misplaced {
		e.add(Problem, "", "Put the right address into cluster.yaml and run weft apply; weft check says what was expected.", "%s", m)
	}
	if len(e.up()) == 0 {
		return ""
	}
	return "the servers belong to cluster " + e.Cluster
}

func (e *examiner) versions() string {
	_, home := e.primaries()
	for _, s := range e.up() {
		switch major := s.Version / 10000; {
		case major < oldest:
			e.add(Problem, s.place(), fmt.Sprintf("Upgrade the server to PostgreSQL %d or newer.", oldest), "runs PostgreSQL %s, which weft does not support", s.VersionText)
		case home != nil && major != home.Version/10000:
			e.add(Problem, s.place(), "Bring all shards to one major version: tables cannot be declared over several.", "runs PostgreSQL %s, and the home shard %s", s.VersionText, home.VersionText)
		case home != nil && s.Version != home.Version:
			e.add(Warning, s.place(), "Install the newer minor version on all servers.", "runs PostgreSQL %s, and the home shard %s", s.VersionText, home.VersionText)
		}
	}
	if home == nil {
		return ""
	}
	return fmt.Sprintf("%s PostgreSQL %s", plural(len(e.up()), "server runs", "servers run"), home.VersionText)
}

// database returns a server's database of that name.
func (s *Server) database(name string) *Database {
	for i := range s.Databases {
		if s.Databases[i].Name == name {
			return &s.Databases[i]
		}
	}
	return nil
}

// pairs calls f for each database of the home shard that is declared and its counterpart on another
// shard.
func (e *examiner) pairs(f func(s *Server, home, other *Database)) (databases int) {
	list, home := e.primaries()
	if home == nil {
		return 0
	}
	for i := range home.Databases {
		h := &home.Databases[i]
		if h.Missing {
			continue
		}
		databases++
		for _, s := range list {
			if d := s.database(h.Name); s != home && d != nil && !d.Missing {
				f(s, h, d)
			}
		}
	}
	return databases
}

func (e *examiner) locales() string {
	n := e.pairs(func(s *Server, h, d *Database) {
		where := s.place()
		if d.Encoding != h.Encoding {
			e.add(Problem, where, "Make the database anew there, with TEMPLATE template0 and the home shard's encoding.", "database %s has encoding %s, and %s on the home shard", d.Name, d.Encoding, h.Encoding)
		}
		if d.Locale != h.Locale {
			e.add(Problem, where, "Make the database anew there, with TEMPLATE template0 and the home shard's locale: the same statement sorts otherwise there.", "database %s sorts text by %s, and by %s on the home shard", d.Name, d.Locale, h.Locale)
		} else if d.Actual != h.Actual {
			e.add(Warning, where, "Run the same release of the operating system's libc or ICU on all servers: their orders of text may differ.", "the collation of database %s is of version %s, and of %s on the home shard", d.Name, d.Actual, h.Actual)
		}
	})
	list, _ := e.primaries()
	for _, s := range list {
		for _, d := range s.Databases {
			if d.Recorded != "" && d.Actual != "" && d.Recorded != d.Actual {
				e.add(Warning, s.place(), fmt.Sprintf("REINDEX DATABASE %[1]s; then ALTER DATABASE %[1]s REFRESH COLLATION VERSION.", d.Name), "indexes of database %s were made with version %s of its collation, and the library has %s", d.Name, d.Recorded, d.Actual)
			}
		}
	}
	if n == 0 {
		return "no database has declared tables"
	}
	return fmt.Sprintf("%s the same encoding and locale on all shards", plural(n, "database has", "databases have"))
}

func (e *examiner) extensions() string {
	found := map[string]bool{}
	n := e.pairs(func(s *Server, h, d *Database) {
		for _, name := range sortedKeys(h.Extensions) {
			found[name] = true
			want, got := h.Extensions[name], d.Extensions[name]
			switch {
			case got == "":
				e.add(Problem, s.place(), fmt.Sprintf("CREATE EXTENSION %s VERSION '%s' there.", name, want), "database %s lacks extension %s, which the home shard has", d.Name, name)
			case got != want:
				e.add(Warning, s.place(), fmt.Sprintf("ALTER EXTENSION %s UPDATE TO '%s' where it is older.", name, want), "extension %s of database %s is of version %s, and of %s on the home shard", name, d.Name, got, want)
			}
		}
	})
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s the same on all shards", plural(len(found), "extension is", "extensions are"))
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// plural puts a number before words.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func list(names []string) string { return strings.Join(names, ", ") }
