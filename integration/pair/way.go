package pair

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// More ways to put a statement, for random tests: scripts are played in Modes.
const (
	Several  Mode = "several"  // one of the statements of a simple query
	BySQL    Mode = "by sql"   // PREPARE and EXECUTE
	Piped    Mode = "piped"    // without a Sync between it and its neighbours
	Portions Mode = "portions" // through a portal, a few rows at a time
)

// Ways are all ways to put a statement.
var Ways = []Mode{Simple, Text, Binary, Prepared, Several, BySQL, Piped, Portions}

// preparable are the statements that PREPARE takes.
var preparable = regexp.MustCompile(`(?i)^[\s(]*(select|insert|update|delete|values|with)\b`)

// askWay puts a statement in one of these ways. It is false for the modes. What its
// neighbours answer is left out if nothing failed.
func (p *Peer) askWay(ctx context.Context, m Mode, sql string, set []Param, mask map[string]bool, a *Answer) (way bool, err error) {
	switch m {
	case Several:
		err = p.askSimple(ctx, "select 'before'; "+Inline(sql, set)+"; select 'behind'", mask, a)
	case BySQL:
		err = p.askBySQL(ctx, sql, set, mask, a)
	case Piped:
		err = p.askPiped(sql, set, mask, a)
	case Portions:
		return true, p.askPortions(ctx, sql, set, mask, a)
	default:
		return false, nil
	}
	if err == nil && a.Code == "" && len(a.Results) == 3 {
		a.Results = a.Results[1:2]
	}
	return true, err
}

// askBySQL prepares a statement, executes and deallocates it. What cannot be prepared is
// put as it is.
func (p *Peer) askBySQL(ctx context.Context, sql string, set []Param, mask map[string]bool, a *Answer) error {
	if !preparable.MatchString(sql) {
		return p.askSimple(ctx, Inline(sql, set), mask, a)
	}
	var types, args []string
	for i, v := range set {
		types = append(types, v.Type)
		args = append(args, Inline(fmt.Sprintf("$%d", i+1), set))
	}
	p.bySQL++ // in a failed transaction a name stays taken
	name := fmt.Sprintf("by_sql_%d", p.bySQL)
	head, tail := "prepare "+name, "execute "+name
	if len(set) > 0 {
		head += "(" + strings.Join(types, ", ") + ")"
		tail += "(" + strings.Join(args, ", ") + ")"
	}
	if err := p.askSimple(ctx, head+" as "+sql, mask, a); err != nil {
		return err
	}
	err := p.askSimple(ctx, tail, mask, a)
	if p.Conn.TxStatus() == 'E' {
		return err
	}
	if e := p.askSimple(ctx, "deallocate "+name, mask, a); err == nil {
		err = e
	}
	return err
}

// askPiped puts a statement between two others, and all before one Sync.
func (p *Peer) askPiped(sql string, set []Param, mask map[string]bool, a *Answer) error {
	for _, one := range p.Pipeline([]Query{{SQL: "select 'before'"}, {SQL: sql, Set: set}, {SQL: "select 'behind'"}}, mask) {
		a.Results = append(a.Results, one.Results...)
		if one.Code != "" {
			a.Code, a.Message = one.Code, one.Message
		}
	}
	return nil
}

// portion is how many rows are fetched from a portal at a time.
const portion = 3

// askPortions executes a portal until it is through.
func (p *Peer) askPortions(ctx context.Context, sql string, set []Param, mask map[string]bool, a *Answer) error {
	oids, values := make([]uint32, len(set)), make([][]byte, len(set))
	for i, v := range set {
		oids[i] = TypeOIDs[v.Type]
		if v.Text != nil {
			values[i] = []byte(*v.Text)
		}
	}
	f := p.Conn.Frontend()
	f.SendParse(&pgproto3.Parse{Query: sql, ParameterOIDs: oids})
	f.SendBind(&pgproto3.Bind{DestinationPortal: "in_portions", Parameters: values})
	f.SendDescribe(&pgproto3.Describe{ObjectType: 'P', Name: "in_portions"})
	f.SendExecute(&pgproto3.Execute{Portal: "in_portions", MaxRows: portion})
	f.Send(&pgproto3.Flush{})
	if err := f.Flush(); err != nil {
		return err
	}
	var fields []pgconn.FieldDescription
	var rows [][][]byte
	var failed error
	sync := func() error {
		f.SendSync(&pgproto3.Sync{})
		return f.Flush()
	}
	for {
		msg, err := p.Conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := msg.(type) {
		case *pgproto3.RowDescription:
			for _, d := range m.Fields {
				fields = append(fields, pgconn.FieldDescription{
					Name: string(d.Name), TableOID: d.TableOID, TableAttributeNumber: d.TableAttributeNumber, DataTypeOID: d.DataTypeOID,
					DataTypeSize: d.DataTypeSize, TypeModifier: d.TypeModifier, Format: d.Format,
				})
			}
		case *pgproto3.DataRow:
			row := make([][]byte, len(m.Values))
			for i, v := range m.Values {
				if v != nil {
					row[i] = append([]byte{}, v...)
				}
			}
			rows = append(rows, row)
		case *pgproto3.PortalSuspended:
			f.SendExecute(&pgproto3.Execute{Portal: "in_portions", MaxRows: portion})
			f.Send(&pgproto3.Flush{})
			if err := f.Flush(); err != nil {
				return err
			}
		case *pgproto3.CommandComplete:
			a.add(p.names, fields, rows, string(m.CommandTag), mask)
			f.SendClose(&pgproto3.Close{ObjectType: 'P', Name: "in_portions"})
			if err := sync(); err != nil {
				return err
			}
		case *pgproto3.EmptyQueryResponse:
			if err := sync(); err != nil {
				return err
			}
		case *pgproto3.ErrorResponse:
			failed = pgconn.ErrorResponseToPgError(m)
			if err := sync(); err != nil {
				return err
			}
		case *pgproto3.ReadyForQuery:
			return failed
		}
	}
}
