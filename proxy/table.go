package proxy

import (
	"context"
	"maps"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/proxy/table"
)

// newTables returns what goes on with unfinished work on tables.
func newTables(s *Server) *table.Keeper {
	return table.New(table.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Mover: s.mover, Alive: s.left.Alive, Away: s.keeper.seeker.Away, LookedUp: s.memory.envs.lookedUp, Turn: s.register.turn,
	})
}

// recoverInterval is how often unfinished work of other proxies is looked for.
const recoverInterval = 2 * time.Second

// recoverLeft finishes or undoes the unfinished work of proxies that are gone: moves of tables, changes of schemas and
// lookups. A proxy without a directory has no others.
func (s *Server) recoverLeft(ctx context.Context) {
	tables := newTables(s)
	s.every(ctx, recoverInterval, func(snap *directory.Snapshot) {
		if s.cfg.Directory != nil {
			s.left.SettleLeft(ctx, snap)
			tables.Recover(ctx, snap)
		}
	})
}

// lookedUp returns the tables with lookups of the schemas that this proxy has read, by database. A schema that is
// being read is left out.
func (e *environments) lookedUp() map[string][]*catalog.Relation {
	e.mu.Lock()
	slots := maps.Clone(e.loaded)
	e.mu.Unlock()
	out := map[string][]*catalog.Relation{}
	for database, slot := range slots {
		select {
		case slot.turn <- struct{}{}:
		default:
			continue
		}
		schema := slot.schema
		<-slot.turn
		if schema != nil {
			out[database] = schema.LookedUp()
		}
	}
	return out
}
