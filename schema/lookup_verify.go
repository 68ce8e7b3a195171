package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/pgerr"
)

// VerifyLookup compares a lookup with the rows of its table and repairs the lookup, while other
// sessions write.
func (m *Mover) VerifyLookup(ctx context.Context, req LookupRequest, notice Notice) (LookupReport, error) {
	snap, spec, err := m.lookAtLookup(ctx, &req, true)
	if err != nil {
		return LookupReport{}, m.ended(ctx, err)
	}
	if spec.known == nil || !spec.known.Public {
		return LookupReport{}, pgerr.New(pgerr.UndefinedObject, "%q has no lookup on (%s)", req.name(), strings.Join(req.Columns, ", "))
	}
	spec.unique, spec.name = spec.known.Unique, spec.known.Name
	j := &lookupJob{Mover: m, ctx: ctx, snap: snap, spec: spec, req: &req.Request, notice: notice}
	j.report.Name, j.report.Key = spec.name, spec.list()
	defer j.close()
	if err := j.dial(true); err != nil {
		return j.report, m.ended(ctx, err)
	}
	for i := range j.shards {
		if err := j.addMissing(i, true); err != nil {
			return j.report, m.ended(ctx, err)
		}
	}
	for i := range j.shards {
		if err := j.removeStale(i); err != nil {
			return j.report, m.ended(ctx, err)
		}
	}
	return j.report, nil
}

// Lookups lists the lookups of a table, or of all tables of the database if the request names none.
func (m *Mover) Lookups(ctx context.Context, req *Request) ([]LookupRequest, error) {
	snap, err := m.load(ctx, req.Database)
	if err != nil {
		return nil, err
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return nil, err
	}
	defer home.close()
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return nil, err
	}
	var out []LookupRequest
	for _, rel := range schema.LookedUp() {
		if req.Table.Name != "" && rel.Name != req.Table {
			continue
		}
		for i := range rel.Lookups {
			if l := &rel.Lookups[i]; l.Public {
				r := LookupRequest{Request: *req, Name: l.Name, Unique: l.Unique}
				r.Table, r.Columns, r.From = rel.Name, l.Columns, derivedFrom(l)
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// removeStale goes through the entries of a shard's table and removes those that have no row.
func (j *lookupJob) removeStale(shard int) error {
	read, l := j.reading[shard], j.spec
	err := read.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "DECLARE c NO SCROLL CURSOR FOR SELECT "+l.stored()+" FROM "+l.own()+" t")
	if err != nil {
		return err
	}
	for {
		rows, err := read.Exec(fmt.Sprintf("FETCH %d FROM c", lookupBatch))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return read.run("ROLLBACK")
		}
		stored := map[int][]string{} // by the shard that should have the row
		for _, r := range rows {
			at := j.ownerOf(number(strings.Split(r[0], ":")[1]))
			stored[at] = append(stored[at], r[0])
		}
		for at, entries := range stored {
			surplus, err := j.surplus(shard, at, entries)
			if err == nil && len(surplus) > 0 {
				err = j.retry(func() error { return j.removeLocked(shard, at, surplus) }, j.shards[at], j.shards[shard])
			}
			if err != nil {
				return err
			}
		}
	}
}

// surplus returns the entries that the table of shard has more often than shard at has rows for
// them.
func (j *lookupJob) surplus(shard, at int, entries []string) ([]string, error) {
	l := j.spec
	have, err := j.count(shard, entries)
	if err != nil {
		return nil, err
	}
	rows, err := j.shards[at].Exec("SELECT e, count(*) FROM (" + l.entries("(SELECT r.* FROM "+l.rows()+" WHERE EXISTS (SELECT FROM "+l.parse(entries)+" e WHERE "+l.matches()+")) r") + ") q GROUP BY e")
	if err != nil {
		return nil, err
	}
	want := map[string]int{}
	for _, r := range rows {
		want[r[0]] = int(number(r[1]))
	}
	var out []string
	for e, n := range have {
		for range n - want[e] {
			out = append(out, e)
		}
	}
	return out, nil
}

// removeLocked looks again under locks, which keep every session from changing a row without
// telling the lookup, and then deletes.
func (j *lookupJob) removeLocked(shard, at int, entries []string) error {
	l, rows, own := j.spec, j.shards[at], j.shards[shard]
	if err := rows.run("BEGIN", "SET LOCAL lock_timeout = '1s'", "LOCK TABLE "+l.table.SQL()+" IN SHARE MODE"); err != nil {
		return err
	}
	if shard != at {
		if err := own.run("BEGIN", "SET LOCAL lock_timeout = '1s'"); err != nil {
			return err
		}
	}
	// Wait for transactions that are about to delete one of the entries.
	if _, err := own.Exec("SELECT FROM " + l.own() + " t JOIN " + l.parse(entries) + " e ON t.id = e.id AND " + l.same() + " FOR UPDATE OF t"); err != nil {
		return err
	}
	surplus, err := j.surplus(shard, at, entries)
	if err != nil {
		return err
	}
	for _, e := range surplus {
		err := own.run("DELETE FROM " + l.own() + " WHERE ctid = (SELECT t.ctid FROM " + l.own() + " t JOIN " + l.parse([]string{e}) + " e ON t.id = e.id AND " + l.same() + " LIMIT 1)")
		if err != nil {
			return err
		}
	}
	if err := own.run("COMMIT"); err != nil {
		return err
	}
	if shard != at {
		if err := rows.run("COMMIT"); err != nil {
			return err
		}
	}
	j.report.Stale += int64(len(surplus))
	return nil
}

// wouldPass reports whether waiting for other transactions may help.
func wouldPass(err error) bool {
	var e *pgerr.Error
	return errors.As(err, &e) && (e.Code == pgerr.LockNotAvailable || e.Code == pgerr.DeadlockDetected)
}
