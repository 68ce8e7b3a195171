package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"weft/directory"
)

// Kept is a copy of the directory that was found in a database of a shard.
type Kept struct {
	Shard, Address, Database string
	Number                   int64
	Content                  string
}

// Kept reads the copies of the directory from all databases of the hosts. One that cannot be read
// is an error: it could be the newest.
func (s *Servers) Kept(ctx context.Context, shards []directory.Shard, hosts []Host, timeout time.Duration) ([]Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out []Kept
	for _, h := range hosts {
		at := slices.IndexFunc(shards, func(sh directory.Shard) bool { return sh.Name == h.Shard })
		for _, d := range h.Databases {
			if !d.Found.Stamped || at < 0 {
				continue
			}
			k, ok, err := s.kept(ctx, &shards[at], h.Address, d.Name)
			if err != nil {
				return nil, fmt.Errorf("%s at %s, database %s: %w", h.Shard, h.Address, d.Name, err)
			}
			if ok {
				out = append(out, k)
			}
		}
	}
	return out, nil
}

func (s *Servers) kept(ctx context.Context, shard *directory.Shard, address, database string) (k Kept, ok bool, err error) {
	c, err := s.Dial(ctx, shard, address, database)
	if err != nil {
		return k, false, err
	}
	defer c.Terminate()
	rows, err := exec(ctx, c, "SELECT pg_catalog.to_regclass('weft.directory') IS NOT NULL")
	if err != nil || len(rows) != 1 || rows[0][0] != "t" {
		return k, false, err
	}
	rows, err = exec(ctx, c, "SELECT version, content FROM weft.directory")
	if err != nil || len(rows) != 1 {
		return k, false, err
	}
	k = Kept{Shard: shard.Name, Address: address, Database: database, Content: rows[0][1]}
	k.Number, err = strconv.ParseInt(rows[0][0], 10, 64)
	return k, true, err
}

// Newest returns the newest of some copies. It fails if there is none, or if two of the same
// number differ.
func Newest(copies []Kept) (Kept, error) {
	if len(copies) == 0 {
		return Kept{}, errors.New("no shard has a copy of the directory: restore etcd from a backup, or apply an export of weft status -o yaml")
	}
	newest := copies[0]
	for _, k := range copies[1:] {
		if k.Number > newest.Number {
			newest = k
		}
	}
	for _, k := range copies {
		if k.Number == newest.Number && k.Content != newest.Content {
			return newest, fmt.Errorf("the copies of version %d in database %s of %s and in database %s of %s differ: neither can be believed",
				k.Number, newest.Database, newest.Shard, k.Database, k.Shard)
		}
	}
	return newest, nil
}
