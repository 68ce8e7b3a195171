package catalog

import (
	"fmt"
	"slices"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

func (d *dump) alterTable(s *pg_query.AlterTableStmt) error {
	switch s.Objtype {
	case pg_query.ObjectType_OBJECT_TABLE, pg_query.ObjectType_OBJECT_FOREIGN_TABLE, pg_query.ObjectType_OBJECT_VIEW,
		pg_query.ObjectType_OBJECT_MATVIEW, pg_query.ObjectType_OBJECT_SEQUENCE, pg_query.ObjectType_OBJECT_TYPE:
	default:
		return nil // ALTER INDEX changes nothing in a Schema
	}
	r := d.find(rangeName(s.Relation))
	if r == nil && s.MissingOk {
		return nil
	}
	if r == nil {
		return fmt.Errorf("relation %s does not exist", rangeName(s.Relation).quoted())
	}
	for _, n := range s.Cmds {
		cmd := n.GetAlterTableCmd()
		if err := d.alter(r, cmd); err != nil {
			return err
		}
		if !s.Relation.GetInh() || !handedDown[cmd.GetSubtype()] {
			continue
		}
		err := d.toPartitions(r, func(p *Relation) error {
			if cmd.Subtype == pg_query.AlterTableType_AT_AddConstraint {
				return d.cloneIndexes(r, p)
			}
			return d.alter(p, cmd)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// handedDown are the subcommands of ALTER TABLE that also apply to the table's partitions.
var handedDown = map[pg_query.AlterTableType]bool{
	pg_query.AlterTableType_AT_AddColumn:       true,
	pg_query.AlterTableType_AT_DropColumn:      true,
	pg_query.AlterTableType_AT_ColumnDefault:   true,
	pg_query.AlterTableType_AT_SetNotNull:      true,
	pg_query.AlterTableType_AT_DropNotNull:     true,
	pg_query.AlterTableType_AT_AddConstraint:   true,
	pg_query.AlterTableType_AT_AlterColumnType: true,
}

func (d *dump) alter(r *Relation, s *pg_query.AlterTableCmd) error {
	switch s.GetSubtype() {
	case pg_query.AlterTableType_AT_AddColumn:
		def := s.Def.GetColumnDef()
		if r.Column(def.GetColname()) != nil && (s.MissingOk || r.Parent != nil) {
			return nil
		}
		if err := d.addColumn(r, def); err != nil {
			return err
		}
		for _, c := range def.Constraints {
			if err := d.constraint(r, c.GetConstraint(), def.Colname); err != nil {
				return err
			}
		}
	case pg_query.AlterTableType_AT_AddConstraint:
		return d.constraint(r, s.Def.GetConstraint(), "")
	case pg_query.AlterTableType_AT_DropConstraint:
		d.dropConstraint(r, s.Name)
	case pg_query.AlterTableType_AT_ChangeOwner:
		r.Owner = s.Newowner.GetRolename()
	case pg_query.AlterTableType_AT_SetRelOptions:
		setViewOptions(r, s.GetDef().GetList().GetItems(), true)
	case pg_query.AlterTableType_AT_ResetRelOptions:
		setViewOptions(r, s.GetDef().GetList().GetItems(), false)
	case pg_query.AlterTableType_AT_EnableRowSecurity:
		r.RowSecurity = true
	case pg_query.AlterTableType_AT_DisableRowSecurity:
		r.RowSecurity = false
	case pg_query.AlterTableType_AT_AttachPartition:
		p, err := d.need(rangeName(s.Def.GetPartitionCmd().GetName()))
		if err != nil {
			return err
		}
		if err := d.inherit(p, &pg_query.RangeVar{Schemaname: r.Schema, Relname: r.Name.Name}, false); err != nil {
			return err
		}
		// A script of pg_dump attaches partitions before it makes indexes; a script
		// written by hand may attach them later.
		if err := d.cloneIndexes(r, p); err != nil {
			return err
		}
		return d.toPartitions(p, func(c *Relation) error { return d.cloneIndexes(r, c) })
	case pg_query.AlterTableType_AT_DetachPartition:
		p, err := d.need(rangeName(s.Def.GetPartitionCmd().GetName()))
		if err != nil {
			return err
		}
		orphan(p, r)
	case pg_query.AlterTableType_AT_AddInherit:
		return d.inherit(r, s.Def.GetRangeVar(), true)
	case pg_query.AlterTableType_AT_DropInherit:
		p, err := d.need(rangeName(s.Def.GetRangeVar()))
		if err != nil {
			return err
		}
		orphan(r, p)
	default:
		return d.alterColumn(r, s)
	}
	return nil
}

func (d *dump) alterColumn(r *Relation, s *pg_query.AlterTableCmd) error {
	switch s.GetSubtype() {
	case pg_query.AlterTableType_AT_ColumnDefault, pg_query.AlterTableType_AT_SetNotNull, pg_query.AlterTableType_AT_DropNotNull,
		pg_query.AlterTableType_AT_DropColumn, pg_query.AlterTableType_AT_AddIdentity, pg_query.AlterTableType_AT_DropIdentity,
		pg_query.AlterTableType_AT_AlterColumnType, pg_query.AlterTableType_AT_DropExpression, pg_query.AlterTableType_AT_SetIdentity:
	default:
		return nil
	}
	c := r.Column(s.Name)
	if c == nil {
		if s.MissingOk {
			return nil
		}
		return fmt.Errorf("column %s of %s does not exist", quoteIdent(s.Name), r.quoted())
	}
	var err error
	switch s.Subtype {
	case pg_query.AlterTableType_AT_ColumnDefault:
		c.Default, c.Sequence = "", Name{}
		if s.Def != nil {
			c.Default, c.Sequence, err = d.defaultText(s.Def, typeRef{c.Type, c.Mod, c.TypeName})
		}
	case pg_query.AlterTableType_AT_SetNotNull:
		c.NotNull = true
	case pg_query.AlterTableType_AT_DropNotNull:
		c.NotNull = false
	case pg_query.AlterTableType_AT_DropColumn:
		d.dropColumn(r, s.Name)
	case pg_query.AlterTableType_AT_AddIdentity:
		return d.constraint(r, s.Def.GetConstraint(), s.Name)
	case pg_query.AlterTableType_AT_SetIdentity:
		for _, o := range s.Def.GetList().GetItems() {
			if e := o.GetDefElem(); e.GetDefname() == "generated" {
				c.Identity = byte(e.GetArg().GetInteger().GetIval())
			}
		}
	case pg_query.AlterTableType_AT_DropIdentity:
		if seq := d.relations[c.Sequence]; seq != nil && c.Identity != 0 {
			d.remove(seq)
			c.Identity, c.Sequence = 0, Name{}
		}
	case pg_query.AlterTableType_AT_DropExpression:
		c.Generated, c.Default = false, ""
	case pg_query.AlterTableType_AT_AlterColumnType:
		var t typeRef
		if t, err = d.resolve(s.Def.GetColumnDef().GetTypeName()); err == nil {
			c.Type, c.Mod, c.TypeName = t.oid, t.mod, t.display
		}
	}
	return err
}

// orphan ends the inheritance between child and parent.
func orphan(child, parent *Relation) {
	parent.Children = slices.DeleteFunc(parent.Children, func(c *Relation) bool { return c == child })
	if child.Parent == parent {
		child.Parent, child.Inherited = nil, false
	}
}

// dropConstraint drops the foreign key, or the unique constraint and its index,
// of that name.
func (d *dump) dropConstraint(r *Relation, name string) {
	r.ForeignKeys = slices.DeleteFunc(r.ForeignKeys, func(k ForeignKey) bool { return k.Name == name })
	if index := d.relations[Name{r.Schema, name}]; index != nil && index.OwnedBy == r.Name {
		d.remove(index)
	}
	r.Unique = slices.DeleteFunc(r.Unique, func(u Unique) bool { return u.Name == name })
}

// dropColumn drops a column with the constraints that contain it and the sequences
// that it owns.
func (d *dump) dropColumn(r *Relation, name string) {
	for _, u := range slices.Clone(r.Unique) {
		if slices.Contains(u.Columns, name) {
			d.dropConstraint(r, u.Name)
		}
	}
	r.ForeignKeys = slices.DeleteFunc(r.ForeignKeys, func(k ForeignKey) bool { return slices.Contains(k.Columns, name) })
	for _, seq := range slices.Clone(d.all) {
		if seq.Kind == Sequence && seq.OwnedBy == r.Name && seq.OwnedColumn == name {
			d.remove(seq)
		}
	}
	r.Columns = slices.DeleteFunc(r.Columns, func(c Column) bool { return c.Name == name })
}

// rename follows ALTER … RENAME of relations and columns.
func (d *dump) rename(s *pg_query.RenameStmt) error {
	if s.Relation == nil {
		return nil
	}
	r := d.find(rangeName(s.Relation))
	if r == nil {
		if s.MissingOk {
			return nil
		}
		return fmt.Errorf("relation %s does not exist", rangeName(s.Relation).quoted())
	}
	switch s.RenameType {
	case pg_query.ObjectType_OBJECT_COLUMN:
		return d.renameColumn(r, s.Subname, s.Newname)
	case pg_query.ObjectType_OBJECT_TABLE, pg_query.ObjectType_OBJECT_VIEW, pg_query.ObjectType_OBJECT_MATVIEW,
		pg_query.ObjectType_OBJECT_SEQUENCE, pg_query.ObjectType_OBJECT_INDEX, pg_query.ObjectType_OBJECT_FOREIGN_TABLE:
		return d.move(r, Name{r.Schema, s.Newname})
	}
	return nil
}

func (d *dump) renameColumn(r *Relation, from, to string) error {
	c := r.Column(from)
	if c == nil {
		return fmt.Errorf("column %s of %s does not exist", quoteIdent(from), r.quoted())
	}
	if r.Column(to) != nil {
		return fmt.Errorf("column %s of %s already exists", quoteIdent(to), r.quoted())
	}
	c.Name = to
	swap := func(names []string) {
		for i := range names {
			if names[i] == from {
				names[i] = to
			}
		}
	}
	for _, u := range r.Unique {
		swap(u.Columns)
	}
	for _, o := range d.all {
		for _, fk := range o.ForeignKeys {
			if fk.Table == r.Name {
				swap(fk.Columns)
			}
			if fk.References == r.Name {
				swap(fk.RefColumns)
			}
		}
		if o.OwnedBy == r.Name && o.OwnedColumn == from {
			o.OwnedColumn = to
		}
	}
	return nil
}

// move renames a relation, and updates every reference to it except those inside
// texts, such as the queries of views.
func (d *dump) move(r *Relation, to Name) error {
	if d.relations[to] != nil {
		return fmt.Errorf("relation %s already exists", to.quoted())
	}
	from := r.Name
	delete(d.relations, from)
	d.relations[to] = r
	r.Name = to
	if t := d.types[from]; t != nil && t.kind == 'c' {
		delete(d.types, from)
		t.name = to
		d.types[to] = t
	}
	for _, o := range d.all {
		if o.OwnedBy == from {
			o.OwnedBy = to
		}
		for i := range o.Columns {
			if c := &o.Columns[i]; c.Sequence == from {
				c.Sequence = to
				if c.Default != "" {
					c.Default = nextval(to)
				}
			}
		}
		for i := range o.Unique {
			if r.Kind == Index && r.OwnedBy == o.Name && o.Unique[i].Name == from.Name {
				o.Unique[i].Name = to.Name
			}
		}
		for i := range o.ForeignKeys {
			fk := &o.ForeignKeys[i]
			if fk.Table == from {
				fk.Table = to
			}
			if fk.References == from {
				fk.References = to
			}
		}
	}
	return nil
}

func (d *dump) alterSchema(s *pg_query.AlterObjectSchemaStmt) error {
	if s.Relation == nil {
		return nil
	}
	r, err := d.need(rangeName(s.Relation))
	if err != nil {
		return err
	}
	for _, o := range slices.Clone(d.all) {
		if o.OwnedBy == r.Name {
			if err := d.move(o, Name{s.Newschema, o.Name.Name}); err != nil {
				return err
			}
		}
	}
	return d.move(r, Name{s.Newschema, r.Name.Name})
}

// alterOwner follows ALTER TYPE … OWNER TO. The owner of a table comes with ALTER TABLE.
func (d *dump) alterOwner(s *pg_query.AlterOwnerStmt) {
	if s.ObjectType != pg_query.ObjectType_OBJECT_TYPE {
		return
	}
	if r := d.find(nameOf(s.Object.GetList().GetItems())); r != nil && r.Kind == Composite {
		r.Owner = s.Newowner.GetRolename()
	}
}

func (d *dump) drop(s *pg_query.DropStmt) error {
	switch s.RemoveType {
	case pg_query.ObjectType_OBJECT_TABLE, pg_query.ObjectType_OBJECT_VIEW, pg_query.ObjectType_OBJECT_MATVIEW,
		pg_query.ObjectType_OBJECT_SEQUENCE, pg_query.ObjectType_OBJECT_INDEX, pg_query.ObjectType_OBJECT_FOREIGN_TABLE:
	default:
		return nil
	}
	for _, o := range s.Objects {
		n := nameOf(o.GetList().GetItems())
		r := d.find(n)
		switch {
		case r != nil && !r.System():
			d.dropRelation(r)
		case !s.MissingOk:
			return fmt.Errorf("relation %s does not exist", n.quoted())
		}
	}
	return nil
}

// dropRelation drops a relation with its indexes, owned sequences and partitions,
// and the foreign keys that reference it.
func (d *dump) dropRelation(r *Relation) {
	d.remove(r)
	delete(d.types, r.Name)
	if r.Kind == Index || r.Kind == PartitionedIndex {
		if table := d.relations[r.OwnedBy]; table != nil {
			table.Unique = slices.DeleteFunc(table.Unique, func(u Unique) bool { return u.Name == r.Name.Name })
		}
		return
	}
	for _, o := range slices.Clone(d.all) {
		if o.OwnedBy == r.Name {
			d.remove(o)
		}
		o.Children = slices.DeleteFunc(o.Children, func(c *Relation) bool { return c == r })
		o.ForeignKeys = slices.DeleteFunc(o.ForeignKeys, func(k ForeignKey) bool { return k.References == r.Name })
	}
	for _, c := range r.Children {
		orphan(c, r)
		if !c.Inherited && r.Kind == PartitionedTable {
			d.dropRelation(c)
		}
	}
}
