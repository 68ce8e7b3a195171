package schema

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/vindex"
)

// addMissing goes through the rows of a shard and adds the entries that are missing. If compare is
// set, it first looks at the entries that are there, and counts.
func (j *lookupJob) addMissing(shard int, compare bool) error {
	read, l := j.reading[shard], j.spec
	err := read.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "DECLARE c NO SCROLL CURSOR FOR "+l.entries(l.table.SQL()+" r"))
	if err != nil {
		return err
	}
	next := time.Now().Add(progressEvery)
	var done int64
	for {
		rows, err := read.Exec(fmt.Sprintf("FETCH %d FROM c", lookupBatch))
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return read.run("ROLLBACK")
		}
		want := map[string]int{}
		for _, r := range rows {
			want[r[0]]++
		}
		missing := want
		if l.unique || compare {
			missing, err = j.lacking(want)
		}
		if err == nil && len(missing) > 0 {
			err = j.addLocked(shard, missing, compare)
		}
		if err != nil {
			return err
		}
		done += int64(len(rows))
		j.report.Rows += int64(len(rows))
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			j.notice.tell("lookup %s: %d rows of shard %s", l.name, done, j.shards[shard].shard)
		}
	}
}

// byShard sorts entries by the shard that they belong on.
func (j *lookupJob) byShard(entries map[string]int) (map[int][]string, error) {
	out := map[int][]string{}
	for e := range entries {
		text, _, _ := strings.Cut(e, ":")
		number, err := strconv.Atoi(text)
		b := directory.NumberingOf(j.snap).Noted(number)
		if err != nil || b < 0 || b >= len(j.snap.Placement) || int(j.snap.Placement[b]) >= len(j.shards) {
			return nil, fmt.Errorf("an entry of lookup %s belongs to bucket %q, which no shard holds", j.spec.name, text)
		}
		at := int(j.snap.Placement[b])
		out[at] = append(out[at], e)
	}
	return out, nil
}

// lacking returns the entries that are there less often than wanted.
func (j *lookupJob) lacking(want map[string]int) (map[string]int, error) {
	shards, err := j.byShard(want)
	if err != nil {
		return nil, err
	}
	missing := map[string]int{}
	for at, entries := range shards {
		have, err := j.count(at, entries)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if have[e] < want[e] {
				missing[e] = want[e]
			}
		}
	}
	return missing, nil
}

// count returns how often each entry is in a shard's table.
func (j *lookupJob) count(at int, entries []string) (map[string]int, error) {
	entries = slices.Compact(slices.Sorted(slices.Values(entries))) // each entry once: a duplicate would be counted twice
	rows, err := j.shards[at].Exec("SELECT e.e, count(*) FROM " + j.spec.parse(entries) + " e JOIN " + j.spec.own() + " t ON t.id = e.id AND " + j.spec.same() + " GROUP BY e.e")
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, r := range rows {
		out[r[0]] = int(number(r[1]))
	}
	return out, nil
}

// addLocked adds entries after locking their rows, so that no session deletes a row between the
// look at it and the writing of its entry.
func (j *lookupJob) addLocked(shard int, missing map[string]int, compare bool) error {
	return j.retry(func() error { return j.tryAdd(shard, missing, compare) }, j.shards[shard])
}

// retry repeats an action that gave up waiting for a lock: the session that holds the lock may be
// waiting for a lock of this job.
func (j *lookupJob) retry(do func() error, open ...*session) error {
	const attempts = 20
	for n := 1; ; n++ {
		err := do()
		if err == nil {
			return nil
		}
		for _, s := range open {
			_ = s.run("ROLLBACK")
		}
		if n == attempts || !wouldPass(err) {
			return err
		}
		select {
		case <-j.ctx.Done():
			return context.Cause(j.ctx)
		case <-time.After(time.Duration(n) * 50 * time.Millisecond):
		}
	}
}

func (j *lookupJob) tryAdd(shard int, missing map[string]int, compare bool) error {
	s, l := j.shards[shard], j.spec
	var list []string
	for e := range missing {
		list = append(list, e)
	}
	if err := s.run("BEGIN", "SET LOCAL lock_timeout = '1s'"); err != nil {
		return err
	}
	rows, err := s.Exec(l.entries("(SELECT r.* FROM " + l.rows() + " WHERE EXISTS (SELECT FROM " + l.parse(list) + " e WHERE " + l.matches() + ") FOR SHARE OF r) r"))
	if err != nil {
		return err
	}
	want := map[string]int{}
	for _, r := range rows {
		if _, asked := missing[r[0]]; asked {
			want[r[0]]++
		}
	}
	if l.unique {
		if want, err = j.lacking(want); err != nil {
			return err
		}
	}
	shards, err := j.byShard(want)
	if err != nil {
		return err
	}
	for at, entries := range shards {
		if err := j.insert(shard, at, entries, want, compare); err != nil {
			return err
		}
	}
	return s.run("COMMIT")
}

// insert adds entries to the table of shard at. Their rows are locked on shard from.
func (j *lookupJob) insert(from, at int, entries []string, want map[string]int, compare bool) error {
	l := j.spec
	// If at is from, this session is the one that holds the locks of the rows.
	s := j.shards[at]
	if err := s.run("SET lock_timeout = '1s'"); err != nil {
		return err
	}
	if !l.unique {
		return j.insertMany(s, from, at, entries, want, compare)
	}
	rows, err := s.Exec("INSERT INTO " + l.own() + " (id, " + l.vs() + ") SELECT id, " + l.vs() + " FROM " + l.parse(entries) + " e ORDER BY " + l.vs() + " ON CONFLICT DO NOTHING RETURNING id")
	if err != nil {
		return err
	}
	j.report.Missing += int64(len(rows))
	if len(rows) == len(entries) {
		return nil
	}
	// For values that have another entry: is there a row for that entry?
	rows, err = s.Exec("SELECT e.e, " + l.storedFor() + " FROM " + l.parse(entries) + " e JOIN " + l.own() + " t ON " + l.same() + " WHERE t.id <> e.id")
	if err != nil {
		return err
	}
	for _, r := range rows {
		if err := j.contend(from, s, r[0], r[1], compare); err != nil {
			return err
		}
	}
	return nil
}

// insertMany is insert for a lookup that has an entry for each row.
func (j *lookupJob) insertMany(s *session, from, at int, entries []string, want map[string]int, compare bool) error {
	l := j.spec
	if at != from {
		if err := s.run("BEGIN"); err != nil {
			return err
		}
		defer func() { _ = s.run("ROLLBACK") }()
	}
	if compare {
		// A row may be committed a moment before its entry is.
		if err := s.run("LOCK TABLE " + l.own() + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	// An entry that another transaction is about to delete does not count: wait for that
	// transaction.
	if _, err := s.Exec("SELECT FROM " + l.own() + " t JOIN " + l.parse(entries) + " e ON t.id = e.id AND " + l.same() + " FOR UPDATE OF t"); err != nil {
		return err
	}
	have, err := j.count(at, entries)
	if err != nil {
		return err
	}
	var add []string
	for _, e := range entries {
		for range want[e] - have[e] {
			add = append(add, e)
		}
	}
	if len(add) > 0 {
		if err := s.run("INSERT INTO " + l.own() + " (id, " + l.vs() + ") SELECT id, " + l.vs() + " FROM " + l.parse(add) + " e"); err != nil {
			return err
		}
	}
	if at != from {
		if err := s.run("COMMIT"); err != nil {
			return err
		}
	}
	j.report.Missing += int64(len(add))
	return nil
}

// storedFor returns stored with the column names that the expression for the bucket uses.
func (l *lookupSpec) storedFor() string {
	return "(SELECT " + l.stored() + " FROM (SELECT t.*) t)"
}

// contend decides between a row that was found and the other row that its value's entry is for.
func (j *lookupJob) contend(from int, s *session, found, stands string, compare bool) (err error) {
	l := j.spec
	parts := strings.Split(stands, ":")
	id, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return err
	}
	other := j.shards[j.ownerOf(id)]
	if other != j.shards[from] {
		// The lock makes a row visible that is just being committed.
		if err := other.run("BEGIN", "SET LOCAL lock_timeout = '1s'", "LOCK TABLE "+l.table.SQL()+" IN SHARE MODE"); err != nil {
			_ = other.run("ROLLBACK")
			return err
		}
		defer func() { err = errors.Join(err, other.run("COMMIT")) }()
	}
	rows, err := other.Exec(l.entries("(SELECT r.* FROM " + l.rows() + ", " + l.parse([]string{stands}) + " e WHERE " + l.matches() + ") r"))
	if err != nil {
		return err
	}
	there := slices.ContainsFunc(rows, func(r []string) bool { return r[0] == stands })
	switch {
	case there && compare:
		j.report.Duplicates++
		return nil
	case there:
		return l.duplicates(parts[2:])
	}
	j.report.Stale++
	return s.run("UPDATE " + l.own() + " t SET id = e.id FROM " + l.parse([]string{found}) + " e WHERE " + l.same())
}

// ownerOf returns the shard that rows with a keyspace ID are on.
func (j *lookupJob) ownerOf(id int64) int {
	placement := j.snap.Placement
	if t := j.snap.Table(j.spec.database, j.spec.table.Schema, j.spec.table.Name); t != nil {
		placement = directory.PlacesIn(j.snap).Of(t.Group)
	}
	return int(placement[j.snap.BucketOf(vindex.ID(id))])
}

// duplicates returns the error of duplicated for the values of an entry.
func (l *lookupSpec) duplicates(values []string) error {
	for i, v := range values {
		if b, err := hex.DecodeString(v); err == nil {
			values[i] = string(b)
		}
	}
	return l.duplicated(values)
}

// key lists what the lookup keeps unique, as PostgreSQL's messages do.
func (l *lookupSpec) key() string {
	if l.derived != nil {
		return strings.Join(l.derived.shown, ", ")
	}
	return catalog.QuoteIdents(l.columns)
}

// duplicated returns the error of PostgreSQL for a unique index that cannot be made.
func (l *lookupSpec) duplicated(values []string) error {
	name := l.index
	if name == "" {
		name = l.name
	}
	e := pgerr.New(pgerr.UniqueViolation, "could not create unique index %q", name).
		WithDetail("Key (%s)=(%s) is duplicated.", l.key(), strings.ReplaceAll(strings.Join(values, ", "), "\x01", "null")) // see weft.lookup_derive
	e.Schema, e.Table, e.Constraint = l.table.Schema, l.table.Name, name
	return e
}
