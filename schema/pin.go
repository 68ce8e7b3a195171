package schema

import (
	"context"
	"fmt"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// Pin gives a value of a lookup vindex a bucket of its own on a shard. It refuses a value that has an
// entry with a *PlacedError, because its rows would have to move, and a user who is not a superuser.
func (m *Mover) Pin(ctx context.Context, database, user, lookup, value, shard string) error {
	snap, err := m.load(ctx, database)
	if err != nil {
		return err
	}
	sh, ok := snap.Shard(shard)
	if !ok {
		return pgerr.New(pgerr.UndefinedObject, "shard %q does not exist", shard)
	}
	if sh.State != directory.ShardActive {
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "shard %q is %s and takes no values", shard, sh.State)
	}
	if m.cfg.Entries == nil {
		return pgerr.New(pgerr.FeatureNotSupported, "lookups are not kept here").WithHint("%s", noDirectoryHint)
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, database, user, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	if err := mustBeSuperuser(home, "pin a value to a shard"); err != nil {
		return err
	}
	var used []*directory.Table
	for i := range snap.Tables {
		if t := &snap.Tables[i]; t.Vindex.Lookup() && t.Vindex.Name == lookup {
			used = append(used, t)
		}
	}
	if len(used) == 0 {
		return pgerr.New(pgerr.UndefinedObject, "no table is declared with a lookup named %q", lookup).
			WithHint("Declare one first: SELECT weft.shard_table('…', 'tenant_id', vindex => 'lookup_unique', name => %s).", quote.Literal(lookup))
	}
	v, err := used[0].NewVindex(snap.BucketCount)
	if err != nil {
		return err
	}
	l, ok := v.(vindex.Lookup)
	if !ok {
		return fmt.Errorf("vindex %q is no lookup", lookup)
	}
	key, err := l.Columns()[0].Store(datum.Literal([]byte(value)))
	if err != nil {
		return pgerr.New(pgerr.InvalidParameterValue, "%q is not a value of type %s: %s", value, used[0].Columns[0].TypeName, err)
	}
	r, err := l.Request([]datum.Key{key}, nil)
	if err != nil {
		return err
	}
	for _, t := range used {
		if t.State != directory.Active {
			return pgerr.New(pgerr.ObjectInUse, "%q is being %s", display(catalog.Name{Schema: t.Schema, Name: t.Name}), progress(t.State))
		}
		if err := notWhileCarried(snap, t.Database); err != nil {
			return err
		}
	}
	pinned, err := m.cfg.Entries.Pin(ctx, lookup, r.Key, shard)
	if err != nil {
		return err
	}
	if !pinned {
		return &PlacedError{Lookup: lookup, Key: r.Key, Default: r.Default, err: pgerr.New(pgerr.ObjectInUse, "value %q of lookup %q has its place already", value, lookup)}
	}
	return nil
}

// PlacedError says that a value of a lookup has an entry, and may have rows: a job has to carry
// them.
type PlacedError struct {
	Lookup string
	// Key and Default are those of vindex.Request.
	Key     []byte
	Default vindex.ID
	err     *pgerr.Error
}

func (e *PlacedError) Error() string { return e.err.Error() }
func (e *PlacedError) Unwrap() error { return e.err }
