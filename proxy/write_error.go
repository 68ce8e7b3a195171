package proxy

import (
	"errors"
	"strings"

	"weft/pgerr"
)

// named makes a shard's refusal to write in a READ ONLY transaction name the client's
// command, which other commands may carry out: a row moves by DELETE and INSERT.
func (x *gathering) named(err error) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Code != barredCode || x.write == nil {
		return err
	}
	told := *e
	if strings.Contains(e.Where, "function weft.") {
		told.Where = "" // the context is a lookup's own function
	}
	verb, ok := strings.CutSuffix(strings.TrimPrefix(e.Message, "cannot execute "), " in a read-only transaction")
	if ok && verb != x.write.Verb && !strings.HasPrefix(verb, x.write.Verb+" FOR ") {
		told.Message = "cannot execute " + x.write.Verb + " in a read-only transaction"
	}
	return told.WithCause(err)
}
