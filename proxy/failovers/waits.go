package failovers

import (
	"time"

	"weft/primary"
)

// waits is what is known of the commits of a primary that wait for a synchronous standby.
type waits struct {
	seen time.Time // the first probe that found that commits wait; zero if they do not
	// from is how far the primary had written at the next probe: all commits beyond have waited. 0: not known. The first probe does not tell, because the
	// processes of a server learn of a change of settings one after the other.
	from primary.LSN
	// held is the furthest that a standby had received.
	held primary.LSN
}

// see takes notice of the view of a shard that has a primary.
func (w *waits) see(v *primary.View, leader *primary.Server) {
	switch {
	case leader.Seen.SyncNames == "":
		*w = waits{}
		return
	case w.seen.IsZero():
		w.seen = leader.Seen.At
	case w.from == 0 && leader.Seen.At.After(w.seen):
		w.from = leader.Seen.LSN
	}
	for i := range v.Servers {
		if s := &v.Servers[i]; v.Has(s) {
			w.held = max(w.held, s.Seen.Received)
		}
	}
}

// cover reports whether all commits beyond an LSN have waited for a standby.
func (w *waits) cover(lsn primary.LSN) bool { return w.from != 0 && w.from <= lsn }
