package schema

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Directory is the part of the directory that a Mover needs.
type Directory interface {
	Load(ctx context.Context) (*directory.Snapshot, error)
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	// Acknowledged waits until no statement begins with an older snapshot.
	Acknowledged(ctx context.Context, version int64) error
}

// Config configures a Mover. All fields but Entries and Log are required.
type Config struct {
	Shards    Shards
	Directory Directory
	// Entries keeps the buckets of lookup vindexes. Without it no table can be declared by a lookup
	// vindex.
	Entries Entries
	// Proxy is the id of this process in the directory.
	Proxy string
	// Service is the role that makes weft's own objects on the shards. Default: postgres.
	Service string
	// Returning is how long Fence waits for a proxy that has lost its place in the directory and has
	// backends. Default: 10 s.
	Returning time.Duration
	// Log receives errors that have no caller to return to. Default: discarded.
	Log *slog.Logger

	// Step, if set, is called with the name of each step of a job, for tests that stop the process
	// there.
	Step func(name string)

	// step, if set, is called like Step; its error ends the job, for tests that die there.
	step func(name string) error
}

// Mover declares tables and takes declarations back. One serves a process; its
// methods may be called by several goroutines.
type Mover struct {
	cfg Config

	mu      sync.Mutex
	running map[string]bool // ids of the jobs this process works on

	guarded sync.Map // databases whose declared tables all shards know: see GuardTables
}

// New returns a Mover.
func New(cfg Config) *Mover {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Service == "" {
		cfg.Service = "postgres"
	}
	if cfg.Returning == 0 {
		cfg.Returning = defaultReturning
	}
	if cfg.step == nil {
		cfg.step = func(name string) error {
			if cfg.Step != nil {
				cfg.Step(name)
			}
			return nil
		}
	}
	return &Mover{cfg: cfg, running: map[string]bool{}}
}

// Notice sends the client a NOTICE or WARNING while a call is under way. The goroutine that called
// the Mover calls it.
type Notice func(*pgerr.Error)

func (n Notice) tell(format string, args ...any) {
	n(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: fmt.Sprintf(format, args...)})
}

// Shard declares a table as sharded and distributes its rows.
func (m *Mover) Shard(ctx context.Context, req Request, notice Notice) error {
	return m.declare(ctx, &req, directory.Sharded, notice)
}

// Reference declares a table as a reference table and copies its rows to every
// shard.
func (m *Mover) Reference(ctx context.Context, req Request, notice Notice) error {
	return m.declare(ctx, &req, directory.Reference, notice)
}

// load reads the snapshot as the statements of a database see it.
func (m *Mover) load(ctx context.Context, database string) (*directory.Snapshot, error) {
	snap, err := m.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	return snap.For(database), nil
}

// newJob gives a job its id and counts it as running here.
func (m *Mover) newJob(req *Request) directory.Job {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	j := directory.Job{ID: hex.EncodeToString(id[:]), Proxy: m.cfg.Proxy, User: req.User}
	m.run(j.ID, true)
	return j
}

func (m *Mover) run(id string, running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if running {
		m.running[id] = true
	} else {
		delete(m.running, id)
	}
}

// Running reports whether this process works on a job.
func (m *Mover) Running(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running[id]
}

// sight is what a judgement is based on, read from the home shard.
type sight struct {
	judgement *judgement
	verdict   *verdict
	def       *Definition
}

// look reads and judges. facts is a session on the home shard outside any transaction. reading
// holds the table's lock, or is facts if the table is not locked.
func (m *Mover) look(facts, reading *session, snap *directory.Snapshot, req *Request, kind directory.TableKind) (*sight, error) {
	schema, err := catalog.Load(0, facts.Exec)
	if err != nil {
		return nil, err
	}
	rel := schema.Relation(req.Table)
	if rel == nil {
		return nil, pgerr.New(pgerr.UndefinedTable, "relation %q does not exist", req.name())
	}
	def := &Definition{}
	if rel.Kind == catalog.Table || rel.Kind == catalog.PartitionedTable {
		if err := owner(reading, req); err != nil {
			return nil, err
		}
		if err := untyped(reading, req); err != nil {
			return nil, err
		}
		if def, err = readDefinition(reading, req.Table); err != nil {
			return nil, err
		}
	}
	equal, err := exclusions(reading, req.Table)
	if err != nil {
		return nil, err
	}
	j := &judgement{snap: snap, schema: schema, def: def, equal: equal, req: req, kind: kind}
	v, err := judge(j)
	if err != nil {
		return nil, err
	}
	for _, fk := range v.restored {
		def.After = append(def.After, restore(fk))
	}
	return &sight{j, v, def}, nil
}

// restore returns the statement that brings a foreign key back.
func restore(fk directory.ForeignKey) string {
	return "ALTER TABLE " + catalog.Name{Schema: fk.Schema, Name: fk.Table}.SQL() + " ADD CONSTRAINT " + quote.Ident(fk.Name) + " " + fk.Definition
}

// owner refuses a user who is neither the table's owner, nor a member of that role, nor a
// superuser.
func owner(s *session, req *Request) error {
	rows, err := s.Exec("SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c WHERE c.oid = to_regclass(" + quote.Literal(req.Table.SQL()) + ")")
	if err != nil {
		return err
	}
	if len(rows) == 1 && rows[0][0] != "t" {
		return pgerr.New(pgerr.InsufficientPrivilege, "must be owner of table %s", req.Table.Name)
	}
	return nil
}

// untyped refuses a table that is OF a type: ALTER TYPE … CASCADE would change its
// columns behind the declaration's back.
func untyped(s *session, req *Request) error {
	rows, err := s.Exec("SELECT c.reloftype::regtype FROM pg_class c WHERE c.reloftype <> 0 AND c.oid = to_regclass(" + quote.Literal(req.Table.SQL()) + ")")
	if err == nil && len(rows) > 0 {
		err = refuse(pgerr.FeatureNotSupported, "%q is a table OF type %s, which may change its columns", req.name(), rows[0][0]).
			WithHint("Take the type away first: ALTER TABLE %s NOT OF.", req.Table.SQL())
	}
	return err
}

// exclusions returns the columns that exclusion constraints compare with =.
func exclusions(s *session, table catalog.Name) (map[string][]string, error) {
	rows, err := s.Exec(`SELECT k.conname, a.attname FROM pg_constraint k
CROSS JOIN LATERAL unnest(k.conkey, k.conexclop) AS e(num, op) JOIN pg_operator o ON o.oid = e.op AND o.oprname = '='
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = e.num
WHERE k.contype = 'x' AND k.conrelid IN (SELECT to_regclass(` + quote.Literal(table.SQL()) + `) UNION ALL SELECT relid FROM pg_partition_tree(to_regclass(` + quote.Literal(table.SQL()) + `)))`)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, r := range rows {
		if !slices.Contains(out[r[0]], r[1]) {
			out[r[0]] = append(out[r[0]], r[1])
		}
	}
	return out, nil
}

// others returns the names of all shards but home.
func others(snap *directory.Snapshot) []string {
	var out []string
	for i := range snap.Shards {
		if snap.Shards[i].Name != snap.Home {
			out = append(out, snap.Shards[i].Name)
		}
	}
	return out
}

// errSuperseded says that the directory's entry does not belong to this job any more.
var errSuperseded = errors.New("somebody else has taken this over")
