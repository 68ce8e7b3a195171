package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/directory"
	"weft/pgerr"
)

// Moving rows runs code: CHECK constraints of the table and of domains, generated columns,
// expressions of indexes and partitions, and everything that PostgreSQL evaluates of these while
// planning. PostgreSQL runs that code with the rights of the role that moves the rows. So the owner
// of a table could make a superuser who declares it run anything. Rows of a table with code that
// the asking user has no reason to trust are therefore moved over connections that are logged in as
// the table's owner. SET ROLE would not do: code can undo it.

// codeQuery lists the functions that moving the rows of a table may run and that the asking user
// has no reason to trust. Trusted are immutable functions that belong to PostgreSQL, to a superuser
// or to the asking user: a function that is not immutable may run a text or read a view that it is
// given. Of PostgreSQL's own stable functions only those that make XML do that. Defaults, triggers
// and policies do not count: COPY of all columns, with triggers off, runs none of them.
const codeQuery = `WITH types AS (SELECT unnest($types) AS id), texts(t) AS (
  SELECT conbin::text FROM pg_constraint WHERE contype = 'c' AND (conrelid = ANY($set) OR contypid IN (SELECT id FROM types))
  UNION ALL SELECT d.adbin::text FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum WHERE d.adrelid = ANY($set) AND a.attgenerated <> ''
  UNION ALL SELECT concat(indexprs::text, indpred::text) FROM pg_index WHERE indrelid = ANY($set)
  UNION ALL SELECT partexprs::text FROM pg_partitioned_table WHERE partrelid = ANY($set)
  UNION ALL SELECT concat(ev_qual::text, ev_action::text) FROM pg_rewrite WHERE ev_class = ANY($set)
), operators(id) AS (
  SELECT m[1]::oid FROM texts, regexp_matches(t, ':opno (\d+)', 'g') m
  UNION SELECT unnest(conexclop) FROM pg_constraint WHERE conrelid = ANY($set) AND contype = 'x'
  UNION SELECT o.amopopr FROM pg_index i CROSS JOIN LATERAL unnest(i.indclass) c JOIN pg_opclass k ON k.oid = c JOIN pg_amop o ON o.amopfamily = k.opcfamily WHERE i.indrelid = ANY($set) AND k.oid >= 16384
), functions(id) AS (
  SELECT m[1]::oid FROM texts, regexp_matches(t, ':(?:funcid|opfuncid|hashfuncid|negfuncid|aggfnoid|winfnoid|elemfuncid) (\d+)', 'g') m
  UNION SELECT o.oprcode FROM operators JOIN pg_operator o ON o.oid = operators.id
  UNION SELECT p.amproc FROM pg_index i CROSS JOIN LATERAL unnest(i.indclass) c JOIN pg_opclass k ON k.oid = c JOIN pg_amproc p ON p.amprocfamily = k.opcfamily WHERE i.indrelid = ANY($set) AND k.oid >= 16384
  UNION SELECT castfunc FROM pg_cast WHERE castsource IN (SELECT id FROM types) OR casttarget IN (SELECT id FROM types)
  UNION SELECT unnest(ARRAY[rngcanonical::oid, rngsubdiff::oid]) FROM pg_range WHERE rngtypid IN (SELECT id FROM types)
)
SELECT DISTINCT p.oid::regprocedure::text FROM functions f JOIN pg_proc p ON p.oid = f.id JOIN pg_roles r ON r.oid = p.proowner
WHERE p.provolatile = 'v' OR p.provolatile = 's' AND (p.oid >= 16384 OR p.proname ~ 'xml') OR p.oid >= 16384 AND NOT r.rolsuper AND r.rolname <> current_user ORDER BY 1`

// code finds the table's owner and the code that moving its rows may run.
func (r *reader) code() error {
	rows, err := r.Exec("SELECT rolname FROM pg_roles a JOIN pg_class c ON c.relowner = a.oid WHERE c.oid = " + r.oids[0] + " AND NOT a.rolsuper AND rolname <> current_user")
	if err != nil || len(rows) == 0 {
		return err
	}
	var types []string
	for n := range r.graph.nodes {
		types = append(types, n.oid) // oids of other catalogs among them do no harm
	}
	query := strings.NewReplacer("$set", r.set(), "$types", "'{"+strings.Join(types, ",")+"}'::oid[]").Replace(codeQuery)
	functions, err := r.Exec(query)
	if err == nil && len(functions) > 0 {
		r.def.steward, r.def.code = rows[0][0], first(functions)
	}
	return err
}

// entrust returns the request as the table's owner would make it, if moving rows runs code that the
// asking user does not trust, and otherwise the request as it is. The asking user, who may have
// more rights than the owner, makes what the table needs on the other shards: that runs no code.
func (m *Mover) entrust(ctx context.Context, facts *session, snap *directory.Snapshot, req *Request, seen *sight, notice Notice) (*Request, error) {
	def := seen.def
	if def.steward == "" {
		return req, nil
	}
	own := *req
	own.User = def.steward
	s, err := open(ctx, m.cfg.Shards, snap.Home, req.Database, own.User, "weft")
	if err == nil {
		var is string
		is, err = s.one("SELECT current_user")
		s.close()
		if err == nil && is != def.steward {
			err = fmt.Errorf("user %q is logged in as %q", def.steward, is)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, distrusted(req, def, err)
	}
	if seen.judgement != nil {
		if err := m.equip(ctx, facts, snap, req, seen, notice); err != nil {
			return nil, err
		}
	}
	return &own, nil
}

// distrusted is the refusal for a shard on which weft cannot log in as the owner.
func distrusted(req *Request, def *Definition, err error) error {
	return pgerr.New(pgerr.InsufficientPrivilege, "moving rows of %q runs code that belongs to others, and weft cannot log in as its owner %q: %s", req.name(), def.steward, pgerr.From(err).Message).
		WithDetail("The code would run with the rights of whoever calls this: %s.", strings.Join(def.code, ", ")).
		WithHint("Call it as the table's owner. Or let the owner log in from weft for a while, or, having read them, give functions that are immutable to a superuser.").WithCause(err)
}

// equip makes on the other shards what the table needs, as the asking user.
func (m *Mover) equip(ctx context.Context, facts *session, snap *directory.Snapshot, req *Request, seen *sight, notice Notice) error {
	d := &declaration{Mover: m, ctx: ctx, req: req, snap: snap.For(req.Database), home: facts, seen: seen, notice: notice}
	defer func() {
		for _, s := range d.shards {
			s.close()
		}
	}()
	for _, name := range others(snap) {
		s, err := open(ctx, m.cfg.Shards, name, req.Database, req.User, "weft")
		if stranger(err) {
			return nil // the declaration's own login makes what is missing, or fails
		}
		if err != nil {
			return err
		}
		d.shards = append(d.shards, s)
		if err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, req.lockTimeout().Milliseconds()))); err != nil {
			return err
		}
		if err := d.bringRoles(s); err != nil {
			return err
		}
		if err := checkRoles(s, seen.def.Roles); err != nil {
			return err
		}
		if err := applyObjects(s, seen.def.Needs); err != nil {
			return err
		}
	}
	if err := d.bring(); err != nil {
		return err
	}
	for _, s := range d.shards {
		if err := s.run("COMMIT"); err != nil {
			return err
		}
	}
	return nil
}

// errEntrusted says that a table got untrusted code between two looks at it.
var errEntrusted = errors.New("it has got code that belongs to others meanwhile")

// stillTrusted refuses a table with untrusted code, at the look that decides.
func stillTrusted(req *Request, def *Definition) error {
	if def.steward == "" {
		return nil
	}
	return pgerr.New(pgerr.ObjectInUse, "%q has changed meanwhile", req.name()).WithHint("Try again.").WithCause(errEntrusted)
}
