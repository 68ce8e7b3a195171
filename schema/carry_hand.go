package schema

import (
	"bytes"
	"fmt"
	"strings"

	"weft/pgerr"
	"weft/quote"
)

// Carrying rows runs code of the table, as steward.go says, and the sessions of a round belong to a
// superuser: they silence triggers and foreign keys. The rows of a table whose owner is no superuser,
// and that has code which is not to be trusted, therefore go by the hand of the owner: a function
// that is the owner's takes them out, and another puts them in. SECURITY DEFINER gives the code
// inside the rights of the owner, and PostgreSQL lets nothing inside take other rights. The functions
// live in the transaction of the round, which makes and drops them.

// hand is the pair of functions that carries the rows of a table with the rights of its owner.
type hand struct {
	owner string
	// row is the expression for a row as it travels: the text of a value of the table's type, with NULL
	// for columns that the shard computes, in hexadecimal digits.
	row string
}

// handBytes is how many bytes of rows are put into a table at once.
const handBytes = 256 << 10

// typesQuery lists the types that the rows of tables consist of.
const typesQuery = `WITH RECURSIVE made(id) AS (
  SELECT atttypid FROM pg_catalog.pg_attribute WHERE attrelid = ANY($set) AND attnum > 0 AND NOT attisdropped
  UNION SELECT part.id FROM made JOIN pg_catalog.pg_type t ON t.oid = made.id CROSS JOIN LATERAL (
    SELECT t.typelem UNION ALL SELECT t.typbasetype UNION ALL SELECT rngsubtype FROM pg_catalog.pg_range WHERE rngtypid = t.oid
    UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE t.typrelid <> 0 AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) part(id)
  WHERE part.id <> 0)
SELECT coalesce(pg_catalog.array_agg(id), '{}'), coalesce(pg_catalog.bool_or(t.typtype = 'd' AND NOT r.rolsuper), false)
FROM made JOIN pg_catalog.pg_type t ON t.oid = made.id JOIN pg_catalog.pg_roles r ON r.oid = t.typowner`

// members lists a table and its partitions.
const members = `SELECT pg_catalog.array_agg(relid) FROM (SELECT pg_catalog.to_regclass($table)::oid UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(pg_catalog.to_regclass($table))) m(relid)`

// entrust decides for each table of a round who carries its rows on a shard, whose tables are locked
// against new code: what is there now is what will run. ALTER DOMAIN needs no lock on tables, so a
// domain that is not a superuser's counts as code.
func (c *Carriage) entrust(s *session) error {
	for i, t := range c.tables {
		owner, err := t.distrusted(s)
		if err != nil {
			return err
		}
		if owner == "" {
			continue
		}
		if err := c.makeHand(s, i, t, owner); err != nil {
			return cannotAct(t, owner, err)
		}
	}
	return nil
}

// cannotAct is the error for a table whose rows cannot be carried with the rights of its owner.
func cannotAct(t *carried, owner string, err error) error {
	return pgerr.New(pgerr.From(err).Code, "rows of table %s cannot be carried with the rights of its owner %q: %s", display(t.name), owner, pgerr.From(err).Message).WithCause(err)
}

// distrusted returns the owner of a table with code that must not run with the rights of a superuser,
// "" for other tables. The table is locked.
func (t *carried) distrusted(s *session) (string, error) {
	set, err := s.one(strings.ReplaceAll(members, "$table", quote.Literal(t.name.SQL())))
	if err != nil {
		return "", err
	}
	set = quote.Literal(set) + "::oid[]"
	owner, err := s.one("SELECT coalesce(pg_catalog.min(a.rolname), '') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_roles a ON a.oid = c.relowner WHERE c.oid = ANY(" + set + ") AND NOT a.rolsuper AND a.rolname <> current_user")
	if t.super = owner == ""; err != nil || t.super {
		return "", err
	}
	types, err := s.Exec(strings.ReplaceAll(typesQuery, "$set", set))
	if err != nil {
		return "", err
	}
	code, err := s.Exec(strings.NewReplacer("$set", set, "$types", quote.Literal(types[0][0])+"::oid[]").Replace(codeQuery))
	if err != nil || len(code) == 0 && types[0][1] != "t" {
		return "", err
	}
	return owner, nil
}

// count runs a query over a table that returns two numbers, with the rights of the table's owner if
// its code is not to be trusted.
func (t *carried) count(s *session, query string) (rows [][]string, err error) {
	if err := s.run("BEGIN", "LOCK TABLE "+t.name.SQL()+" IN ROW EXCLUSIVE MODE"); err != nil {
		return nil, err
	}
	defer func() {
		if undone := s.run("ROLLBACK"); err == nil {
			err = undone
		}
	}()
	owner, err := t.distrusted(s)
	if err != nil || owner == "" {
		if err == nil {
			rows, err = s.Exec(query)
		}
		return rows, err
	}
	if err := setPath(s, quote.Literal(owner)); err != nil {
		return nil, err
	}
	if err := s.run(`CREATE FUNCTION weft."count"() RETURNS TABLE (a bigint, b bigint) LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS `+quote.Literal(query),
		`ALTER FUNCTION weft."count"() OWNER TO `+quote.Ident(owner)); err != nil {
		return nil, cannotAct(t, owner, err)
	}
	if rows, err = s.Exec(`SELECT * FROM weft."count"()`); err != nil {
		err = cannotAct(t, owner, err)
	}
	return rows, err
}

// function is the name of a function that exists during the round.
func (c *Carriage) function(does string, table int) string {
	return "weft." + quote.Ident(fmt.Sprintf("%s %d %.32s", does, table, c.Name.Nonce))
}

// makeHand makes the functions of a table on a shard: one to take rows out if the shard gives, one
// to put rows in.
func (c *Carriage) makeHand(s *session, i int, t *carried, owner string) error {
	if t.hand == nil {
		rows, err := s.Exec("SELECT pg_catalog.string_agg(CASE attgenerated WHEN '' THEN pg_catalog.quote_ident(attname) ELSE 'NULL' END, ', ' ORDER BY attnum) FROM pg_catalog.pg_attribute WHERE attrelid = pg_catalog.to_regclass(" +
			quote.Literal(t.name.SQL()) + ") AND attnum > 0 AND NOT attisdropped")
		if err != nil {
			return err
		}
		t.hand = &hand{owner: owner, row: "pg_catalog.encode(pg_catalog.convert_to(ROW(" + rows[0][0] + ")::text, 'UTF8'), 'hex')"}
	}
	if err := setPath(s, quote.Literal(owner)); err != nil {
		return err
	}
	fields := make([]string, len(t.columns))
	for i, column := range t.columns {
		fields[i] = "(x.r)." + column
	}
	put := c.function("put", i)
	texts := []string{
		"CREATE FUNCTION " + put + "(text[]) RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS " + quote.Literal(
			"WITH put AS (INSERT INTO "+t.name.SQL()+" ("+strings.Join(t.columns, ", ")+") OVERRIDING SYSTEM VALUE SELECT "+strings.Join(fields, ", ")+
				" FROM (SELECT pg_catalog.convert_from(pg_catalog.decode(u, 'hex'), 'UTF8')::"+t.name.SQL()+" AS r FROM pg_catalog.unnest($1) u OFFSET 0) x RETURNING 1) SELECT pg_catalog.count(*) FROM put"),
		"ALTER FUNCTION " + put + "(text[]) OWNER TO " + quote.Ident(t.hand.owner),
	}
	for p := range c.pairs {
		if c.pairs[p].From != s.shard {
			continue
		}
		take := c.function(fmt.Sprint("take ", p), i)
		texts = append(texts, "CREATE FUNCTION "+take+"() RETURNS SETOF text LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT AS "+
			quote.Literal(c.takeSQL(&c.pairs[p], t, t.hand.row)), "ALTER FUNCTION "+take+"() OWNER TO "+quote.Ident(t.hand.owner))
	}
	if err := s.run(texts...); err != nil {
		return err
	}
	return emptyPath(s)
}

// dropHands removes the functions of a round from a shard before its transaction ends.
func (c *Carriage) dropHands(s *session) error {
	for i, t := range c.tables {
		if t.hand == nil {
			continue
		}
		texts := []string{"DROP FUNCTION IF EXISTS " + c.function("put", i) + "(text[])"}
		for p := range c.pairs {
			texts = append(texts, "DROP FUNCTION IF EXISTS "+c.function(fmt.Sprint("take ", p), i)+"()")
		}
		if err := s.run(texts...); err != nil {
			return err
		}
	}
	return nil
}

// pathQuery is the search_path that sessions of a role have in the database when they begin. What a
// server's own file says is not seen.
const pathQuery = `SELECT pg_catalog.set_config('search_path', 'pg_catalog, ' || coalesce((
  SELECT pg_catalog.substr(c, 13) FROM pg_catalog.pg_db_role_setting d CROSS JOIN LATERAL pg_catalog.unnest(d.setconfig) c
  WHERE d.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
    AND d.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $role)) AND c LIKE 'search_path=%'
  ORDER BY d.setrole <> 0 DESC, d.setdatabase <> 0 DESC LIMIT 1), '"$user", public'), true)`

// setPath gives the transaction of a session the search_path that a role's own sessions have: code of
// tables may name things by it.
func setPath(s *session, role string) error {
	_, err := s.Exec(strings.ReplaceAll(pathQuery, "$role", role))
	return err
}

// emptyPath undoes setPath.
func emptyPath(s *session) error {
	return s.run("SET LOCAL search_path = ''")
}

// byHand carries the rows of a table from one shard to another with the rights of the owner.
func (c *Carriage) byHand(pair, table int) (freight, error) {
	p := &c.pairs[pair]
	w := &putter{to: c.ends[p.To], put: "SELECT " + c.function("put", table)}

	if err := c.ends[p.From].CopyOut("COPY (SELECT * FROM "+c.function(fmt.Sprint("take ", pair), table)+"()) TO STDOUT", w); err != nil {
		return freight{}, c.ends[p.From].explain(err)
	}
	return w.freight, w.flush()
}

// putter puts rows into a table by a function.
type putter struct {
	to    *session
	put   string
	lines []byte // an array of the rows, without its end
	held  int64  // rows in lines
	freight
}

// Write takes one row, as Conn.CopyOut promises.
func (w *putter) Write(row []byte) (int, error) {
	if w.held > 0 {
		w.lines = append(w.lines, ',')
	}
	w.lines = append(w.lines, bytes.TrimSuffix(row, []byte{'\n'})...)
	w.held++
	w.rows++
	w.bytes += int64(len(row)) / 2 // two digits for each byte
	if len(w.lines) < handBytes {
		return len(row), nil
	}
	return len(row), w.flush()
}

// flush puts in what has come so far.
func (w *putter) flush() error {
	if w.held == 0 {
		return nil
	}
	rows, err := w.to.ExecOne(w.put+"($1::text[])", "{"+string(w.lines)+"}")
	if err != nil {
		return w.to.explain(err)
	}
	if n := number(rows[0][0]); n != w.held {
		return fmt.Errorf("%d rows were put into a table and %d arrived", w.held, n)
	}
	w.lines, w.held = w.lines[:0], 0
	return nil
}
