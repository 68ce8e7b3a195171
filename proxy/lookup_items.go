package proxy

import (
	"slices"

	"weft/datum"
	"weft/pgerr"
	"weft/plan"
)

// askItems asks the home shard for what rows have in the indexes that lookups are derived from, before their values are claimed.
func (lk *lookups) askItems(x *gathering, keys []*plan.LookupKey) error {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k *plan.LookupKey) bool { return len(k.Items) == 0 })
	if len(keys) == 0 {
		return nil
	}
	x.progress.items = map[*plan.LookupKey][]datum.Value{}
	for len(keys) > 0 {
		sql, columns, n := []byte("SELECT "), 0, 0
		for n < len(keys) && columns+len(keys[n].Items) < maxTargets {
			for _, item := range keys[n].Items {
				sql = item.Append(appendComma(sql, columns), x.fill())
				columns++
			}
			n++
		}
		got, err := lk.s.write.askHomeFor(x, string(sql))
		if err != nil {
			return err
		}
		if len(got) != columns {
			return pgerr.New(pgerr.InternalError, "%d values of an index were asked for, %d came", columns, len(got))
		}
		for _, k := range keys[:n] {
			for range k.Items {
				x.progress.items[k] = append(x.progress.items[k], datum.Value{Type: datum.Type(got[0].typ), Format: datum.Format(got[0].format), Bytes: got[0].value})
				got = got[1:]
			}
		}
		keys = keys[n:]
	}
	return nil
}
