package routine

import (
	"context"
	"errors"
	"strconv"

	"weft/pgerr"
	"weft/program"
)

// Config says how a program is run.
type Config struct {
	// Under names the schema, the search_path and the role under which statements are planned; empty if what is learnt must not be kept.
	Under string
	// Loose: the program may end the transaction.
	Loose bool
	// MaxBytes bounds the rows that are kept, 0 for any number.
	MaxBytes int64
	// CursorsByVariable: a bound cursor is called like its variable, as up to PostgreSQL 15.
	CursorsByVariable bool
}

// Run is one statement of the client that runs a program.
type Run struct {
	d   *Dialogue
	cfg Config
	// outer is Room.loose outside of the run, held the number of parameters in Room.held, definers is Room.definers.
	outer          bool
	held, definers int
	clauses        []clause
	// may says that the user may use the language. conflict and asserts are the settings plpgsql.variable_conflict and
	// plpgsql.check_asserts.
	may, asserts bool
	conflict     program.Conflict
}

// New begins a run in the room of a session. The caller calls End when it is over.
func New(s Session, room *Room, cfg Config) (*Run, error) {
	if err := room.enter(cfg.Under); err != nil {
		return nil, err
	}
	r := &Run{d: &Dialogue{session: s, room: room, rows: rows{max: cfg.MaxBytes}}, cfg: cfg, outer: room.loose, held: len(room.held), definers: room.definers}
	room.loose = cfg.Loose
	return r, nil
}

// End ends a run. An error ends the session.
func (r *Run) End() error {
	r.d.room.depth--
	r.d.room.loose, r.d.room.held, r.d.room.definers = r.outer, r.d.room.held[:r.held], r.definers
	r.d.room.points -= len(r.d.points)
	return r.d.close()
}

// MayEnd reports whether a CALL in the program that runs may end the transaction.
func (r *Room) MayEnd() bool { return r != nil && r.depth > 0 && r.loose && r.points == 0 }

// Do runs a DO.
func (r *Run) Do(ctx context.Context, text string) (*Result, error) {
	if err := r.prepare(); err != nil {
		return nil, err
	}
	if !r.may {
		return nil, pgerr.New(pgerr.InsufficientPrivilege, "permission denied for language plpgsql")
	}
	p, err := r.compile(text)
	if err != nil {
		return nil, err
	}
	if _, err := r.run(ctx, p, nil); err != nil {
		return nil, err
	}
	return &Result{Tag: "DO"}, nil
}

// prepare learns what programs depend on beside their text.
func (r *Run) prepare() error {
	rows, err := r.ask(`SELECT pg_catalog.has_language_privilege('plpgsql', 'USAGE'), pg_catalog.current_setting('client_min_messages'),
 pg_catalog.current_setting('plpgsql.variable_conflict', true), pg_catalog.current_setting('plpgsql.check_asserts', true)`)
	if err != nil {
		return err
	}
	row := rows[0]
	r.may, r.d.level, r.asserts = row[0].Text == "t", row[1].Text, row[3].Text != "off"
	switch row[2].Text {
	case "use_variable":
		r.conflict = program.UseVariable
	case "use_column":
		r.conflict = program.UseColumn
	}
	return nil
}

// compile compiles a DO, or a CREATE FUNCTION or CREATE PROCEDURE.
func (r *Run) compile(text string) (*program.Program, error) {
	return r.d.room.compile(strconv.Itoa(int(r.conflict))+text, func() (program.Source, error) {
		src, err := program.FromText(text)
		src.Conflict = r.conflict
		return src, err
	})
}

// run runs a compiled program.
func (r *Run) run(ctx context.Context, p *program.Program, args []program.Value) (*program.Result, error) {
	d := r.d
	return p.Run(ctx, &program.Environment{
		Executor: d, Transaction: d, Output: d, Cache: d.room.cache, Atomic: !r.cfg.Loose, MaxBytes: int(r.cfg.MaxBytes), Asserts: r.asserts,
		CursorsByVariable: r.cfg.CursorsByVariable, Stopped: func() error { return d.session.Stopped(false) },
		Portal: func() string {
			d.room.last++
			return "<unnamed portal " + strconv.FormatUint(d.room.last, 10) + ">"
		},
	}, args)
}

// ask runs a query of the catalog whose parameters are texts.
func (r *Run) ask(sql string, args ...string) (rows [][]program.Value, err error) {
	const oidText = 25
	types, values := make([]uint32, len(args)), make([]program.Value, len(args))
	for i, a := range args {
		types[i], values[i] = oidText, program.Value{Text: a, Valid: true}
	}
	p := &program.Prepared{SQL: sql, Types: types, Handle: r.d.room.name("a")}
	_, err = r.d.execute(p, appendValues(nil, values), 0, func(body []byte) { rows = append(rows, valuesOf(body)) })
	if err == nil && len(rows) == 0 {
		err = errNoRows
	}
	return rows, err
}

var errNoRows = errors.New("the catalog has no such row")

// EndsSession returns the error that ends the session of the client, or nil.
func EndsSession(err error) error {
	if e, ok := errors.AsType[*ended](err); ok {
		return e.err
	}
	return nil
}
