package proxy

import (
	"weft/executor"
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
