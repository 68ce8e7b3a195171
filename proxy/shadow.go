package proxy

import (
	"weft/catalog"
	"weft/plan"
	"weft/pool"
)

// shadow is what is known of a named portal while a Bind under its name is on its way. PostgreSQL refuses that Bind. After a ROLLBACK TO
// the portal is there as before.
type shadow struct {
	name       string
	lane       *pool.Lane
	portal     *namedPortal
	control    control
	everywhere *spread
	forAll     *forAll
	fetches    *plan.Description
	columns    []byte
	gathered   *gatheredCursor
	rows       *catalog.Rows
	born       int
}

// shadowOf returns what is known of a portal, nil if there is nothing that could be needed again.
func shadowOf(ps *portals, portal []byte) *shadow {
	if len(portal) == 0 || len(ps.s.tx.replay) == 0 || ps.lanes[string(portal)] == nil || ps.stays.isGone(portal) {
		return nil
	}
	name := string(portal)
	sh := &shadow{
		name: name, lane: ps.lanes[name], portal: ps.s.account.portals[name], control: ps.controls.named[name], everywhere: ps.wide.everywhere[name],
		fetches: ps.fetches[name], columns: ps.columns[name], rows: ps.rows[name], born: ps.stays.born[name],
	}
	if all, ok := ps.wide.forAll[name]; ok {
		sh.forAll = &all
	}
	if c, ok := ps.gathered[name]; ok {
		sh.gathered = &c
	}
	return sh
}

// restore notes that a portal is as it was: the Bind under its name has been refused.
func (sh *shadow) restore(ps *portals) {
	delete(ps.stays.waiting, sh.name)
	ps.lanes[sh.name] = sh.lane
	putBack(ps.s.account.portals, sh.name, sh.portal, sh.portal != nil)
	putBack(ps.controls.named, sh.name, sh.control, sh.control.facts != nil || sh.control.ending)
	ps.wide.forget([]byte(sh.name))
	putBack(ps.wide.everywhere, sh.name, sh.everywhere, sh.everywhere != nil)
	if sh.forAll != nil {
		ps.wide.forAll[sh.name] = *sh.forAll
	}
	putBack(ps.fetches, sh.name, sh.fetches, sh.fetches != nil)
	putBack(ps.columns, sh.name, sh.columns, sh.columns != nil)
	if delete(ps.gathered, sh.name); sh.gathered != nil {
		ps.gathered[sh.name] = *sh.gathered
	}
	putBack(ps.rows, sh.name, sh.rows, sh.rows != nil)
	putBack(ps.stays.born, sh.name, sh.born, sh.born > 0)
}

// putBack makes a map say of a name what it has said before.
func putBack[T any](m map[string]T, name string, v T, known bool) {
	if known {
		m[name] = v
		return
	}
	delete(m, name)
}
