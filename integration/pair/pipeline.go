package pair

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Query is a statement of a pipeline.
type Query struct {
	SQL   string
	Set   []Param
	Flush bool // answers are asked for before the next one is sent
}

// Pipeline sends statements without a Sync between them. There is an answer to each
// up to the first that fails; the status of the last one is that after the Sync,
// as is an error that comes in its place.
func (p *Peer) Pipeline(list []Query, mask map[string]bool) (answers []Answer) {
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	pipe := p.Conn.StartPipeline(ctx)
	answers, err := p.throughPipe(pipe, list, mask)
	if e := pipe.Close(); err == nil {
		err = e
	}
	if n := len(answers); err != nil && (n == 0 || answers[n-1].Code == "") {
		answers = append(answers, Answer{}.failed(err))
	}
	if n := len(answers); n > 0 {
		answers[n-1].Status = p.Conn.TxStatus()
	}
	return answers
}

func (p *Peer) throughPipe(pipe *pgconn.Pipeline, list []Query, mask map[string]bool) (answers []Answer, err error) {
	read := func(upTo int) error {
		for len(answers) < upTo {
			got, err := pipe.GetResults()
			if err != nil {
				return err
			}
			r, ok := got.(*pgconn.ResultReader)
			if !ok {
				return fmt.Errorf("%T in a pipeline", got)
			}
			var a Answer
			if err := p.read(r, mask, &a); err != nil {
				return err
			}
			answers = append(answers, a)
		}
		return nil
	}
	for i, q := range list {
		oids, values := make([]uint32, len(q.Set)), make([][]byte, len(q.Set))
		for i, v := range q.Set {
			oids[i] = TypeOIDs[v.Type]
			if v.Text != nil {
				values[i] = []byte(*v.Text)
			}
		}
		pipe.SendQueryParams(q.SQL, values, oids, nil, nil)
		if !q.Flush {
			continue
		}
		pipe.SendFlushRequest()
		if err := pipe.Flush(); err != nil {
			return answers, err
		}
		if err := read(i + 1); err != nil {
			_ = pipe.Sync()
			return answers, err
		}
	}
	if err := pipe.Sync(); err != nil {
		return answers, err
	}
	return answers, read(len(list))
}
