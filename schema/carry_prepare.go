package schema

import (
	"context"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// indexBytes is how large a table must be before a job makes an index to find the rows of a round: a smaller one
// is read whole. relpages would not tell: it is 0 until the table is vacuumed or analyzed.
const indexBytes = 8 << 20

// bucketSQL gives c the expressions for the bucket of a row, an int: of a row called r, and for
// an index, in which the row has no name.
func (m *Mover) bucketSQL(ctx context.Context, snap *directory.Snapshot, t *directory.Table, c *carried) error {
	v, err := t.NewVindex(snap.BucketCount)
	if err != nil {
		return err
	}
	var columns, bare []string
	for _, k := range t.Columns {
		columns, bare = append(columns, "r."+quote.Ident(k.Name)), append(bare, quote.Ident(k.Name))
	}
	var text string
	switch v := v.(type) {
	case vindex.Computed:
		if text, err = snap.BucketSQL(v, bare); err != nil {
			return err
		}
		c.indexed = "(" + text + ")::int"
		text, err = snap.BucketSQL(v, columns)
	case vindex.Lookup:
		if m.cfg.Entries == nil {
			return pgerr.New(pgerr.FeatureNotSupported, "lookups are not kept here").WithHint("%s", noDirectoryHint)
		}
		// No value is pinned while a job carries rows of the lookup's databases.
		own, pinErr := m.cfg.Entries.Pinned(ctx, t.Vindex.Name, snap)
		if pinErr != nil {
			return pinErr
		}
		if text, err = vindex.LookupSQL(v, bare[0], own, snap.BucketCount); err != nil {
			return err
		}
		c.indexed = "(" + text + ")::int"
		text, err = vindex.LookupSQL(v, columns[0], own, snap.BucketCount)
	default:
		err = fmt.Errorf("vindex %s can place no rows", v.Kind())
	}
	c.bucket = "(" + text + ")::int"
	return err
}

// MoveSizes says how many rows a job has to carry, by bucket.
type MoveSizes struct {
	Rows map[int]int64
	// Buckets is how many buckets the job has to move altogether, those that have moved included.
	Buckets int64
}

// PrepareMove checks the tables of a job, makes the indexes that its rounds find rows by, and
// counts the rows. It may be called again, and finds what an earlier call has made.
func (m *Mover) PrepareMove(ctx context.Context, snap *directory.Snapshot, move directory.Move) (*MoveSizes, error) {
	snap = snap.For(move.Database)
	sizes := &MoveSizes{Rows: map[int]int64{}}
	home, err := m.home(ctx, snap.Home, move.Database)
	if err != nil {
		return nil, m.ended(ctx, err)
	}
	sizes.Buckets, err = m.rememberMove(home, snap, &move)
	home.close()
	if err != nil {
		return nil, m.ended(ctx, err)
	}
	for _, shard := range givers(snap, &move) {
		s, err := open(ctx, m.cfg.Shards, shard, move.Database, m.cfg.Service, MoveApplication(move.ID))
		if err != nil {
			return nil, err
		}
		err = m.prepareGiver(ctx, s, snap, &move, sizes)
		s.close()
		if err != nil {
			return nil, m.ended(ctx, err)
		}
	}
	return sizes, nil
}

// givers are the shards that a job takes buckets from.
func givers(snap *directory.Snapshot, move *directory.Move) []string {
	now, target := snap.PlacementOf(move.Database, move.Group), snap.Targets[move.ID]
	gives := make([]bool, len(snap.Shards))
	for b := range min(len(now), len(target)) {
		if now[b] != target[b] && int(now[b]) < len(gives) {
			gives[now[b]] = true
		}
	}
	var out []string
	for i := range gives {
		if gives[i] {
			out = append(out, snap.Shards[i].Name)
		}
	}
	return out
}

// prepareGiver prepares one shard that rows are taken from.
func (m *Mover) prepareGiver(ctx context.Context, s *session, snap *directory.Snapshot, move *directory.Move, sizes *MoveSizes) error {
	tables, err := m.carriedTables(ctx, s, snap, move)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := carriable(s, t.name); err != nil {
			return err
		}
		where := leavingSQL(snap, snap.Targets[move.ID], s.shard, t.bucket)
		if t.indexed != "" {
			if err := makeIndex(s, move, t, leavingSQL(snap, snap.Targets[move.ID], s.shard, t.indexed)); err != nil {
				return err
			}
		}
		rows, err := t.count(s, "SELECT "+t.bucket+", count(*) FROM "+t.name.SQL()+" AS r WHERE "+where+" GROUP BY 1")
		if err != nil {
			return err
		}
		for _, r := range rows {
			sizes.Rows[int(number(r[0]))] += number(r[1])
		}
	}
	return nil
}

// carriable refuses a table whose rows cannot be carried without a change that clients see.
func carriable(s *session, table catalog.Name) error {
	rows, err := s.Exec("SELECT t.tgname FROM pg_catalog.pg_trigger t WHERE t.tgrelid = to_regclass(" + quote.Literal(table.SQL()) +
		") AND NOT t.tgisinternal AND t.tgenabled IN ('A', 'R') AND t.tgname NOT LIKE 'weft%' AND NOT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = t.tgfoid AND p.pronamespace = 'weft'::regnamespace)")
	if err != nil {
		return err
	}
	if len(rows) > 0 {
		return refuse(pgerr.FeatureNotSupported, "trigger %q of table %s fires for replicated changes and would fire for rows that change shards", rows[0][0], display(table)).
			WithHint("ALTER TABLE %s ENABLE TRIGGER %s before the move, and ENABLE ALWAYS or REPLICA after it.", table.SQL(), quote.Ident(rows[0][0]))
	}
	rows, err = s.Exec("SELECT r.rulename FROM pg_catalog.pg_rewrite r WHERE r.ev_class = to_regclass(" + quote.Literal(table.SQL()) + ") AND r.ev_type IN ('3', '4') AND r.ev_enabled IN ('A', 'R')")
	if err == nil && len(rows) > 0 {
		err = refuse(pgerr.FeatureNotSupported, "rule %q of table %s would rewrite what carries its rows", rows[0][0], display(table)).
			WithHint("Drop the rule, or make it a trigger.")
	}
	return err
}

// moveIndex is the name of the index that a job makes on a table.
func moveIndex(move *directory.Move, table string) string {
	return cut("weft move "+move.ID+" "+table, 63)
}

// cut shortens a text to at most n bytes.
func cut(text string, n int) string {
	if len(text) > n {
		return strings.ToValidUTF8(text[:n], "")
	}
	return text
}

// makeIndex makes the index of a job on a large table and on its partitions. An index that an
// earlier attempt left invalid is made again.
func makeIndex(s *session, move *directory.Move, t *carried, where string) error {
	rows, err := s.Exec("SELECT c.oid::regclass::text, c.relname FROM pg_catalog.pg_class c WHERE c.relkind = 'r' AND pg_catalog.pg_relation_size(c.oid) > " + fmt.Sprint(indexBytes) +
		" AND (c.oid = to_regclass(" + quote.Literal(t.name.SQL()) + ") OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(to_regclass(" + quote.Literal(t.name.SQL()) + "))))")
	if err != nil {
		return err
	}
	for _, r := range rows {
		name := moveIndex(move, r[1])
		found, err := s.Exec("SELECT i.indexrelid::regclass::text, i.indisvalid FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = " +
			quote.Literal(r[0]) + "::regclass AND c.relname = " + quote.Literal(name))
		if err != nil {
			return err
		}
		if len(found) == 1 && found[0][1] == "t" {
			continue
		}
		if len(found) == 1 {
			if err := s.run("DROP INDEX CONCURRENTLY IF EXISTS " + found[0][0]); err != nil {
				return err
			}
		}
		if err := s.run("CREATE INDEX CONCURRENTLY " + quote.Ident(name) + " ON " + r[0] + " ((" + t.indexed + ")) WHERE " + where); err != nil {
			return err
		}
	}
	return nil
}

// FinishMove takes away what PrepareMove made, and has statistics made of the rows that have
// come. It may be called again.
func (m *Mover) FinishMove(ctx context.Context, snap *directory.Snapshot, move directory.Move) error {
	for i := range snap.Shards {
		if err := m.finishShard(ctx, snap, &move, snap.Shards[i].Name); err != nil {
			return m.ended(ctx, err)
		}
	}
	return m.ended(ctx, m.EndMove(ctx, snap, &move, "done", move.Why))
}

// finishShard is FinishMove for one shard.
func (m *Mover) finishShard(ctx context.Context, snap *directory.Snapshot, move *directory.Move, shard string) error {
	s, err := open(ctx, m.cfg.Shards, shard, move.Database, m.cfg.Service, MoveApplication(move.ID))
	if err != nil {
		return err
	}
	defer s.close()
	rows, err := s.Exec("SELECT c.oid::regclass::text FROM pg_catalog.pg_class c WHERE c.relkind = 'i' AND pg_catalog.starts_with(c.relname, " + quote.Literal("weft move "+move.ID+" ") + ")")
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := s.run("DROP INDEX CONCURRENTLY IF EXISTS " + r[0]); err != nil {
			return err
		}
	}
	for _, t := range snap.Declared(move.Database) {
		if t.Kind != directory.Sharded || t.Group != move.Group || t.State != directory.Active {
			continue
		}
		if err := s.run("ANALYZE " + catalog.Name{Schema: t.Schema, Name: t.Name}.SQL()); err != nil {
			return err
		}
	}
	return nil
}

// notWhileCarried refuses what goes by the placement of one moment for a long time, while a job moves
// rows of the database.
func notWhileCarried(snap *directory.Snapshot, database string) error {
	m := snap.Carrying(database)
	if m == nil {
		return nil
	}
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s moves rows of this database to other shards", m.ID).
		WithHint("Wait for it with weft.wait_move('%s'), or end it with weft.cancel_move('%s').", m.ID, m.ID)
}

// MayMove refuses a user who may not move rows to other shards.
func (m *Mover) MayMove(ctx context.Context, database, user string) error {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, database, user, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	may, err := home.one("SELECT rolsuper OR EXISTS (SELECT FROM pg_catalog.pg_roles o WHERE o.rolname = " + quote.Literal(OperatorRole) +
		" AND pg_catalog.pg_has_role(o.oid, 'MEMBER')) FROM pg_catalog.pg_roles WHERE rolname = current_user")
	if err == nil && may != "t" {
		err = pgerr.New(pgerr.InsufficientPrivilege, "must be superuser or a member of role %s to move rows to other shards", OperatorRole).
			WithHint("A superuser can CREATE ROLE %s and GRANT it.", OperatorRole)
	}
	return err
}

// OperatorRole is the role whose members may move rows to other shards.
const OperatorRole = "weft_operator"

// MustBeSuperuser refuses a user of a database who is not a superuser.
func MustBeSuperuser(ctx context.Context, m *Mover, database, user, what string) error {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return err
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, database, user, "weft")
	if err != nil {
		return err
	}
	defer home.close()
	return mustBeSuperuser(home, what)
}

// mustBeSuperuser refuses a session whose user is not a superuser.
func mustBeSuperuser(s *session, what string) error {
	super, err := s.one("SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user")
	if err == nil && super != "t" {
		err = pgerr.New(pgerr.InsufficientPrivilege, "must be superuser to %s", what)
	}
	return err
}
