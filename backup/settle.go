package backup

import (
	"context"

	"weft/directory"
)

// LastArchived asks a server for the last WAL file that it has archived, and "" if there is none.
const LastArchived = "SELECT COALESCE(last_archived_wal, '') FROM pg_catalog.pg_stat_archiver"

// Settle enters which points of a list every shard has archived, in the list and in the directory. A shard that does not answer is asked another
// time.
func Settle(ctx context.Context, store directory.Points, list []directory.Point, ask func(ctx context.Context, shard string) (string, error)) {
	last := map[string]string{}
	for i := range list {
		p := &list[i]
		if p.Archived || len(p.Marks) == 0 {
			continue
		}
		all := true
		for _, k := range p.Marks {
			if all = k.Archives; !all {
				break
			}
			file, known := last[k.Shard]
			if !known {
				file, _ = ask(ctx, k.Shard)
				last[k.Shard] = file
			}
			if all = Archived(file, k.File); !all {
				break
			}
		}
		if all {
			p.Archived = true
			_ = store.NotePoint(ctx, *p, nil) // else another look finds it
		}
	}
}

// Usable reports whether all shards can be restored to a point, and whether that is known: a shard whose log something else keeps does not say.
func Usable(p *directory.Point) (usable, known bool) {
	if p.Archived {
		return true, true
	}
	for _, k := range p.Marks {
		if !k.Archives {
			return false, false
		}
	}
	return false, true
}
