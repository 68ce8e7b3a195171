package proxy

import (
	"slices"
	"strconv"

	"weft/executor"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/vindex"
	"weft/wire"
)

// A statement that lookups must follow is carried out by weft also where it
// visits one shard: its client is told of it when they have followed.

// visitWhole finds the one shard that a statement runs on as it is.
func (s *Session) visitWhole(r *router, x *gathering) error {
	if x.plan.Generate != nil {
		if err := s.generate(r, x.plan); err != nil {
			return err
		}
		x.supplied = r.args.Generated
	}
	if err := s.lookUp(r, x.plan, x.plan.Instances); err != nil {
		return err
	}
	for {
		shards, err := r.bind.Bind(x.plan, s.snap, &r.args)
		if err != nil {
			return err
		}
		one, ok := shards.One()
		if !ok {
			return x.plan.Refusal
		}
		if len(shards.Missing) == 0 {
			if len(x.write.Conflict) > 0 {
				if one, err = s.claim(r, x, one); err != nil {
					return err
				}
			}
			x.visits[one] = []int{0}
			return nil
		}
		if err := s.enter(shards.Missing); err != nil {
			return err
		}
		s.routed()
	}
}

// appendWhole appends the client's own statement.
func (x *gathering) appendWhole(dst []byte, l *leg) ([]byte, error) {
	text, values, types := string(x.text), x.values, x.d.Params
	if g := x.plan.Generate; g != nil {
		edits, err := executor.ParamEdits(g, x.text, x.literals, len(x.plan.Params))
		if err != nil {
			return dst, err
		}
		text = edits.Apply(text)
		if values, err = executor.AppendBind(nil, values, x.supplied); err != nil {
			return dst, err
		}
	}
	given := appendOIDs(nil, types)
	oids, err := l.translate.ParseOIDs(given)
	if err != nil {
		return dst, untranslatable(err)
	}
	if values, err = l.translate.Bind(values, given); err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", text, oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(dst, 0, 0)
	dst = append(append(dst, values...), x.formats...)
	dst = wire.End(dst, at)
	if l.translate != nil && x.write.Returns {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// lookupClaim is a value that has been entered into a lookup before its row is
// stored.
type lookupClaim struct {
	lookup, entry string
	id            vindex.ID
}

// claim enters the values of a row into the lookups that ON CONFLICT asks, and
// returns the shard that the INSERT goes to: that of the row which has one of the
// values already, else its own. Whoever else wants to store these values waits
// from now on.
func (s *Session) claim(r *router, x *gathering, own int) (int, error) {
	if s.conn != nil {
		if err := s.park(); err != nil {
			return 0, err
		}
	}
	at := slices.IndexFunc(x.plan.Instances, func(in plan.Instance) bool { return in.Stored })
	if at < 0 {
		return 0, x.plan.Refusal
	}
	for _, k := range x.write.Conflict {
		entry, id, shard, ok := r.bind.Claim(x.plan, &x.plan.Instances[at], k, s.snap, &r.args)
		if !ok {
			return 0, pgerr.New(pgerr.FeatureNotSupported, "a value that lookup %q has to be asked for cannot be told", k.Name).
				WithHint("Give it as a constant or a parameter of the column's type.")
		}
		if entry == "" {
			continue
		}
		legs, err := s.lookupLegs([]int{shard}, func(int) string {
			return "SELECT weft." + pool.QuoteIdent(k.Name+":claim") + "('" + entry + "')::text"
		})
		if err != nil {
			return 0, err
		}
		if err := s.wrote(legs[0].conn); err != nil {
			_ = s.endLegs(legs, true)
			return 0, err
		}
		s.sendLegs(legs)
		row, err := legs[0].Next()
		var other vindex.ID
		claimed := true
		if fields, ok := rowFields(row, 1); err == nil && ok {
			var n int64
			n, err = strconv.ParseInt(string(fields[0]), 10, 64)
			other, claimed = vindex.ID(n), false
		}
		if ended := s.endLegs(legs, err != nil); ended != nil {
			err = ended
		}
		if err != nil {
			return 0, err
		}
		if claimed {
			x.claims = append(x.claims, lookupClaim{k.Name, entry, id})
			continue
		}
		if to, ok := s.shardOf(other); ok && to != own {
			return to, nil
		}
	}
	return own, nil
}
