package backup

import (
	"fmt"
	"strconv"
	"strings"

	"weft/primary"
)

// Restored is what a server says of itself after its restore.
type Restored struct {
	Shard, Address string
	System         string
	InRecovery     bool
	// LSN is where the server is.
	LSN string
	// History is the history of the server's timeline: pg_wal/<timeline>.history. Empty on the first timeline.
	History string
}

// Arrived returns nil if a server was restored to the point of its shard, and has left recovery there.
func (m *Manifest) Arrived(r Restored) error {
	mark, ok := m.Mark(r.Shard)
	if !ok {
		return fmt.Errorf("%s at %s: the manifest has no such shard", r.Shard, r.Address)
	}
	if r.System != mark.System {
		return fmt.Errorf("%s at %s is another server: its system identifier is %s, and that of the backup %s", r.Shard, r.Address, r.System, mark.System)
	}
	if r.InRecovery {
		return fmt.Errorf("%s at %s is still in recovery: wait until it has reached the point, or look into its log", r.Shard, r.Address)
	}
	if m.Kind == Snapshot {
		return m.copied(r, mark)
	}
	reason := fmt.Sprintf("at restore point %q", m.Target)
	for line := range strings.Lines(r.History) {
		f := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(f) == 3 && f[2] == reason {
			return m.sameTimeline(r, mark, f[0])
		}
	}
	return fmt.Errorf("%s at %s was not restored to the point %s: its history does not say %s", r.Shard, r.Address, m.Name, reason)
}

// sameTimeline checks the timeline that a server was restored along.
func (m *Manifest) sameTimeline(r Restored, mark Mark, timeline string) error {
	got, err1 := strconv.ParseUint(timeline, 10, 32)
	want, err2 := strconv.ParseUint(mark.Timeline(), 16, 32)
	if err1 != nil || err2 != nil || got != want {
		return fmt.Errorf("%s at %s was restored along timeline %s, and the point is on timeline %d", r.Shard, r.Address, timeline, want)
	}
	return nil
}

// copied checks a server that was started on a copy of its disk. That the copy was made before the locks were released cannot be seen.
func (m *Manifest) copied(r Restored, mark Mark) error {
	was, err := primary.ParseLSN(mark.LSN)
	if err != nil {
		return fmt.Errorf("the manifest: %w", err)
	}
	is, err := primary.ParseLSN(r.LSN)
	if err != nil || is < was {
		return fmt.Errorf("%s at %s is at %s, and the copy was to be made after %s", r.Shard, r.Address, r.LSN, mark.LSN)
	}
	return nil
}
