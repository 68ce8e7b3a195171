package pool

// A text that nobody can read may set custom parameters, under names that nobody knows:
// PostgreSQL has no list of them. They are the session's that ran it, and RLS may be decided
// by them. So the backend is stained until it goes to another session, which pays for it.

// stain is what may be left on a backend beyond what can be asked for.
type stain struct {
	session int32 // whose it is; 0 if there is none
	// deep: the backend is not given to another session at all. RESET ALL empties a
	// parameter that it cannot make unknown again.
	deep bool
}

// Stain notes that a session has run something on the backend that nobody can read.
func (c *Conn) Stain(session int32, deep bool) {
	c.stain = stain{session, deep || c.stain.deep && c.stain.session == session}
}

// Cleanse makes a stained backend fit for another session. It reports false for one that
// cannot be, which is to be closed; after an error it is to be discarded.
func (c *Conn) Cleanse(session int32) (bool, error) {
	switch {
	case c.stain.session == 0 || c.stain.session == session:
		return true, nil
	case c.stain.deep:
		return false, nil
	}
	if _, err := c.Exec("RESET ALL"); err != nil {
		return false, err
	}
	// RESET ALL leaves who the session is.
	var kept *Settings
	for _, name := range roles {
		if v, ok := c.Settings.Get(name); ok {
			kept = kept.With(name, v)
		}
	}
	c.Settings, c.stain = kept, stain{}
	return true, nil
}
