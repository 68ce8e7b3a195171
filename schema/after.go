package schema

// constraintIndexes are the indexes that constraints of the table own.
func (r *reader) constraintIndexes() string {
	return `(SELECT conindid FROM pg_constraint WHERE conrelid = ANY(` + r.set() + `) AND contype IN ('p', 'u', 'x'))`
}

// indexes makes the indexes, and the constraints that own an index, in the order in which the home
// shard has made them: of two that a row breaks, PostgreSQL names the older. A partitioned index is
// made on the parent alone; indexDetails attaches its parts. Checks that were never validated come
// last: rows that break them must come in first.
func (r *reader) indexes() error {
	return r.after(`SELECT x.definition FROM (
SELECT i.indrelid AS relation, i.indexrelid AS age, pg_get_indexdef(i.indexrelid) AS definition FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(` + r.set() + `) AND (i.indisvalid OR c.relkind = 'I') AND i.indexrelid NOT IN ` + r.constraintIndexes() + `
UNION ALL SELECT conrelid, CASE contype WHEN 'c' THEN 4294967295 ELSE conindid END, format('ALTER TABLE ONLY %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE conrelid = ANY(` + r.set() + `) AND (contype IN ('p', 'u', 'x') OR contype = 'c' AND NOT convalidated)
) x ORDER BY ` + r.order("x.relation") + `, x.age, x.definition`)
}

// indexDetails collects what CREATE INDEX and ADD CONSTRAINT cannot say about an index.
func (r *reader) indexDetails() error {
	if err := r.after(`SELECT format('ALTER INDEX %s SET (%s)', c.oid::regclass, ` + options("c.reloptions", "") + `) FROM pg_class c
WHERE c.oid IN ` + r.constraintIndexes() + ` AND c.reloptions IS NOT NULL ORDER BY 1`); err != nil {
		return err
	}
	if err := r.after(`SELECT format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', i.indexrelid::regclass, a.attnum, a.attstattarget)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indexrelid WHERE i.indrelid = ANY(` + r.set() + `) AND a.attstattarget >= 0 ORDER BY 1`); err != nil {
		return err
	}
	if err := r.after(`SELECT format('ALTER INDEX %s ATTACH PARTITION %s', h.inhparent::regclass, h.inhrelid::regclass)
FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid WHERE i.indrelid = ANY(` + r.set() + `)
ORDER BY ` + r.order("i.indrelid") + ` DESC, 1`); err != nil {
		return err
	}
	if err := r.after(`SELECT format('ALTER TABLE %s CLUSTER ON %I', i.indrelid::regclass, c.relname) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = ANY(` + r.set() + `) AND i.indisclustered ORDER BY 1`); err != nil {
		return err
	}
	return r.after(`SELECT format('COMMENT ON INDEX %s IS %L', i.indexrelid::regclass, obj_description(i.indexrelid, 'pg_class')) FROM pg_index i
WHERE i.indrelid = ANY(` + r.set() + `) AND obj_description(i.indexrelid, 'pg_class') IS NOT NULL ORDER BY 1`)
}

func (r *reader) foreignKeys() error {
	if err := r.after(`SELECT format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
WHERE conrelid = ANY(` + r.set() + `) AND contype = 'f' AND conparentid = 0 ORDER BY ` + r.order("conrelid") + `, conname`); err != nil {
		return err
	}
	return r.after(`SELECT format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, conrelid::regclass, obj_description(oid, 'pg_constraint')) FROM pg_constraint
WHERE conrelid = ANY(` + r.set() + `) AND obj_description(oid, 'pg_constraint') IS NOT NULL ORDER BY 1`)
}

// triggers collects the triggers, after everything else that could act on rows. A partition's
// inherited triggers come with its parent's. weft's own triggers are made by weft.
func (r *reader) triggers() error {
	return r.after(`SELECT unnest(ARRAY[CASE WHEN tgparentid = 0 THEN pg_get_triggerdef(oid) END,
  CASE WHEN tgenabled <> 'O' THEN format('ALTER TABLE %s %s TRIGGER %I', tgrelid::regclass,
    CASE tgenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, tgname) END,
  format('COMMENT ON TRIGGER %I ON %s IS ', tgname, tgrelid::regclass) || quote_literal(obj_description(oid, 'pg_trigger'))])
FROM pg_trigger WHERE tgrelid = ANY(` + r.set() + `) AND NOT tgisinternal AND tgfoid NOT IN (SELECT oid FROM pg_proc WHERE pronamespace = to_regnamespace('weft')) ORDER BY ` + r.order("tgrelid") + `, tgname`)
}

func (r *reader) policies() error {
	return r.after(`SELECT unnest(ARRAY[format('CREATE POLICY %I ON %s%s FOR %s TO %s%s%s', polname, polrelid::regclass, CASE WHEN NOT polpermissive THEN ' AS RESTRICTIVE' END,
  CASE polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END,
  (SELECT string_agg(CASE x WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x)) END, ', ') FROM unnest(polroles) x),
  ' USING (' || pg_get_expr(polqual, polrelid) || ')', ' WITH CHECK (' || pg_get_expr(polwithcheck, polrelid) || ')'),
  format('COMMENT ON POLICY %I ON %s IS ', polname, polrelid::regclass) || quote_literal(obj_description(oid, 'pg_policy'))])
FROM pg_policy WHERE polrelid = ANY(` + r.set() + `) ORDER BY ` + r.order("polrelid") + `, polname`)
}

func (r *reader) statistics() error {
	return r.after(`SELECT unnest(ARRAY[pg_get_statisticsobjdef(s.oid),
  CASE WHEN stxstattarget >= 0 THEN format('ALTER STATISTICS %I.%I SET STATISTICS %s', n.nspname, stxname, stxstattarget) END,
  format('ALTER STATISTICS %I.%I OWNER TO %I', n.nspname, stxname, pg_get_userbyid(stxowner)),
  format('COMMENT ON STATISTICS %I.%I IS ', n.nspname, stxname) || quote_literal(obj_description(s.oid, 'pg_statistic_ext'))])
FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace WHERE stxrelid = ANY(` + r.set() + `) ORDER BY ` + r.order("stxrelid") + `, stxname`)
}

// tableDetails collects the flags of the tables that depend on earlier statements.
func (r *reader) tableDetails() error {
	return r.after(`SELECT unnest(ARRAY[
  CASE WHEN c.relrowsecurity THEN format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', c.oid::regclass) END,
  CASE WHEN c.relforcerowsecurity THEN format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', c.oid::regclass) END,
  CASE c.relreplident WHEN 'n' THEN format('ALTER TABLE ONLY %s REPLICA IDENTITY NOTHING', c.oid::regclass)
    WHEN 'f' THEN format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', c.oid::regclass)
    WHEN 'i' THEN (SELECT format('ALTER TABLE ONLY %s REPLICA IDENTITY USING INDEX %I', c.oid::regclass, x.relname)
      FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid AND i.indisreplident) END])
FROM pg_class c WHERE c.oid = ANY(` + r.set() + `) ORDER BY ` + r.order("c.oid"))
}
