package pool

import (
	"slices"
	"strings"

	"weft/wire"
)

// Key names the backends that are interchangeable for a client. The startup parameters of a
// backend can not be changed later, because RESET goes back to them: so they are part of the
// key, in one canonical string.
type Key struct {
	Database, User, Params string
}

// notInKey lists the startup parameters that Key.Params leaves out. user and database are
// fields of Key; application_name differs between processes that may share backends, so it is
// applied as a setting.
var notInKey = []string{"user", "database", "application_name"}

// NewKey makes the key for a client's startup parameters.
func NewKey(database, user string, options []wire.Option) Key {
	last := map[string]string{}
	for _, o := range options {
		if !slices.Contains(notInKey, o.Name) && !strings.HasPrefix(o.Name, "_pq_.") {
			last[o.Name] = o.Value
		}
	}
	names := make([]string, 0, len(last))
	for n := range last {
		names = append(names, n)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n)
		b.WriteByte(0)
		b.WriteString(last[n])
		b.WriteByte(0)
	}
	return Key{Database: database, User: user, Params: b.String()}
}

// Param returns a startup parameter, "" if the client has not sent it.
func (k Key) Param(name string) string { return k.params()[name] }

// params returns the startup parameters of the key.
func (k Key) params() map[string]string {
	m := map[string]string{}
	parts := strings.Split(k.Params, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		m[parts[i]] = parts[i+1]
	}
	return m
}
