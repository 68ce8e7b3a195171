package pool

// A text that weft cannot read may set custom parameters under names that weft does not know, and
// PostgreSQL has no list of them. The parameters belong to the session that ran the text, and row
// security may depend on them. So the backend is stained until another session gets it, which
// pays for the cleaning.

// stain says that a backend may hold parameters of a session that PostgreSQL does not list.
type stain struct {
	session int32 // the session that left the stain; 0 for no stain
	// deep says that the backend is never given to another session: RESET ALL can empty a
	// parameter, but not make it unknown again.
	deep bool
}

// Stain notes that a session has run something on the backend that weft cannot read.
func (c *Conn) Stain(session int32, deep bool) {
	c.stain = stain{session, deep || c.stain.deep && c.stain.session == session}
}

// Cleanse makes a stained backend fit for another session. It reports false if the backend cannot
// be cleaned and must be closed; after an error the backend must be discarded.
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
	// RESET ALL does not change the session's roles.
	var kept *Settings
	for _, name := range roles {
		if v, ok := c.settings.Get(name); ok {
			kept = kept.With(name, v)
		}
	}
	c.settings, c.stain = kept, stain{}
	return true, nil
}
