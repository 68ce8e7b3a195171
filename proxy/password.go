package proxy

import (
	"errors"
	"strconv"

	"weft/auth"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
	"weft/wire"
)

// Every shard that is told PASSWORD 'x' draws its own salt and keeps a different verifier,
// and a client's proof is good for only one of them. So weft makes the verifier and gives
// all shards the same.

// sealed replaces the passwords in a command for all shards by verifiers. It returns nil if
// there is nothing to replace.
func (u *utility) sealed(p *plan.Plan, text string) (*edited, error) {
	if p.Change == nil || !p.Change.Password {
		return nil, nil
	}
	given, err := parser.RolePasswords(text, u.s.record.scanOptions())
	if err != nil {
		return nil, err
	}
	var scheme encryption
	var edits parser.Edits
	for _, g := range given {
		if stored, err := auth.Stored("", g.Password, "", 0); err == nil && stored == g.Password {
			continue // a verifier, the same for all shards, or no password at all
		}
		if scheme.kind == "" {
			if scheme, err = u.encryption(); err != nil {
				return nil, err
			}
		}
		stored, err := auth.Stored(scheme.nameOf(g), g.Password, scheme.kind, scheme.iterations)
		if err != nil {
			return nil, err
		}
		written := quote.Literal(stored)
		if g.Doubled {
			written = quote.Double(written)
		}
		if g.Start == g.End {
			return nil, unreadablePassword()
		}
		edits = append(edits, parser.Edit{Start: g.Start, End: g.End, New: written})
	}
	if len(edits) == 0 {
		return nil, nil
	}
	if !takesPasswords(edits.Apply(text), given, u.s.record.scanOptions()) {
		return nil, unreadablePassword()
	}
	return &edited{text, edits}, nil
}

func unreadablePassword() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "weft cannot read how this password is written").
		WithHint("Write it as 'text' in a statement of its own, or send a verifier, as \\password of psql does.")
}

// takesPasswords reports whether an edited text gives the same roles passwords, and in a
// form that is stored as it is.
func takesPasswords(text string, given []parser.RolePassword, opt parser.Options) bool {
	got, err := parser.RolePasswords(text, opt)
	if err != nil || len(got) != len(given) {
		return false
	}
	for i := range got {
		_, err := auth.Stored("", got[i].Password, "", 0)
		if err != nil || got[i].Role != given[i].Role || got[i].Current != given[i].Current {
			return false
		}
	}
	return true
}

// encryption is how the session wants passwords to be kept, and the names behind
// CURRENT_USER and SESSION_USER: an md5 verifier needs the name.
type encryption struct {
	kind       string
	iterations int
	current    string
	session    string
}

// encryption asks the home shard how the session wants passwords to be kept.
func (u *utility) encryption() (encryption, error) {
	// PostgreSQL before 16 has no scram_iterations, and takes 4096.
	rows, err := u.s.route.askHome("SELECT pg_catalog.current_setting('password_encryption'), coalesce(pg_catalog.current_setting('scram_iterations', true), '4096'), current_user, session_user")
	if err != nil {
		return encryption{}, err
	}
	if len(rows) != 1 || len(rows[0]) != 4 {
		return encryption{}, errors.New("the shard did not say how it keeps passwords")
	}
	n, err := strconv.Atoi(rows[0][1])
	if err != nil {
		return encryption{}, err
	}
	return encryption{kind: rows[0][0], iterations: n, current: rows[0][2], session: rows[0][3]}, nil
}

// nameOf returns the name of the role that a password is for.
func (e encryption) nameOf(p parser.RolePassword) string {
	switch p.Current {
	case "CURRENT_USER":
		return e.current
	case "SESSION_USER":
		return e.session
	}
	return p.Role
}

// sealParse is sealed for a Parse message, which it replaces by the edited one.
func (u *utility) sealParse(pl *plan.Plan, p *wire.ParseBody, body *[]byte) (*edited, error) {
	if pl.Change == nil || !pl.Change.Password {
		return nil, nil
	}
	changed, err := u.sealed(pl, string(p.SQL))
	if changed == nil || err != nil {
		return nil, err
	}
	b := wire.AppendCString(nil, string(p.Name))
	b = wire.AppendCString(b, changed.text())
	*body = append(b, p.OIDs...)
	*p, err = wire.DecodeParse(*body)
	return changed, err
}
