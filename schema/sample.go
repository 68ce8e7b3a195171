package schema

import (
	"context"
	"fmt"

	"weft/directory"
	"weft/quote"
)

// samplePages is how many pages of a table are looked at on each shard: enough that a bucket which
// is worth a move is seen, few enough that a table of a terabyte takes no longer than a small one.
const samplePages = 1000

// maxIndexes bounds how much larger than a table its indexes may count: an index of a table that is
// all but empty keeps the size of its past.
const maxIndexes = 4

// BucketSizes is what the buckets of a database hold, as far as a sample can tell.
type BucketSizes struct {
	Rows  []float64 // by bucket
	Bytes []float64 // by bucket, with indexes
}

// SampleBuckets looks at some pages of every sharded table of a database, on each shard, and tells
// from them what each bucket holds. A table of at most samplePages pages is read whole.
func (m *Mover) SampleBuckets(ctx context.Context, database string) (*BucketSizes, error) {
	snap, err := m.load(ctx, database)
	if err != nil {
		return nil, err
	}
	sizes := &BucketSizes{Rows: make([]float64, len(snap.Placement)), Bytes: make([]float64, len(snap.Placement))}
	for i := range snap.Shards {
		if err := m.sampleShard(ctx, snap, database, snap.Shards[i].Name, sizes); err != nil {
			return nil, m.ended(ctx, err)
		}
	}
	return sizes, nil
}

// sampleShard is SampleBuckets for one shard.
func (m *Mover) sampleShard(ctx context.Context, snap *directory.Snapshot, database, shard string, sizes *BucketSizes) error {
	s, err := open(ctx, m.cfg.Shards, shard, database, m.cfg.Service, "weft sample")
	if err != nil {
		return err
	}
	defer s.close()
	tables, err := m.carriedTables(ctx, s, snap, &directory.Move{Database: database})
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := sampleTable(s, t, sizes); err != nil {
			return fmt.Errorf("sample %s on %s: %w", t.name.SQL(), shard, err)
		}
	}
	return nil
}

// sampleTable adds what the rows of one table on one shard take up. Rows are counted and not files:
// a shard that has given rows away has large files for a while. Indexes count as the part of the
// table's files that they are.
func sampleTable(s *session, t *carried, sizes *BucketSizes) error {
	name := quote.Literal(t.name.SQL())
	rows, err := s.Exec("SELECT coalesce(sum(pg_relation_size(relid)), 0) / current_setting('block_size')::int, coalesce(sum(pg_table_size(relid)), 0), coalesce(sum(pg_indexes_size(relid)), 0) FROM (SELECT to_regclass(" + name +
		")::oid AS relid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(" + name + "))) p")
	if err != nil {
		return err
	}
	pages, factor := number(rows[0][0]), 1.0
	if heap, indexes := number(rows[0][1]), number(rows[0][2]); heap > 0 {
		factor += min(float64(indexes)/float64(heap), maxIndexes)
	}
	percent := 100.0
	if pages > samplePages {
		percent = 100 * samplePages / float64(pages)
	}
	// The same pages every time: two plans in a row are the same.
	rows, err = s.Exec(fmt.Sprintf("SELECT %s, count(*), sum(pg_column_size(r.*)) FROM %s AS r TABLESAMPLE SYSTEM (%.6f) REPEATABLE (1) GROUP BY 1", t.bucket, t.name.SQL(), percent))
	if err != nil {
		return err
	}
	for _, r := range rows {
		b := int(number(r[0]))
		if r[0] == "" || b < 0 || b >= len(sizes.Rows) {
			continue
		}
		sizes.Rows[b] += float64(number(r[1])) * 100 / percent
		sizes.Bytes[b] += float64(number(r[2])) * 100 / percent * factor
	}
	return nil
}
