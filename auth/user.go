package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// User is someone weft knows: how they prove it and what the pool gives them.
type User struct {
	// Name is the name in the startup packet.
	Name string `yaml:"name"`

	// Password is clear text, "md5" and 32 hex digits, or a verifier
	// "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey", the last two as in
	// pg_authid.rolpassword. Empty: no password is right.
	Password string `yaml:"password,omitempty"`

	// Databases the user may connect to. Empty: all.
	Databases []string `yaml:"databases,omitempty"`

	// PoolMode is "transaction" or "session". Empty: the pool's default.
	PoolMode string `yaml:"pool_mode,omitempty"`

	// MaxConnections bounds the shard connections the user holds at a time.
	// 0: the pool's default.
	MaxConnections int `yaml:"max_connections,omitempty"`

	// MaxClients bounds the clients that are connected as the user. 0: as
	// everybody else's.
	MaxClients int `yaml:"max_clients,omitempty"`

	// Priority is "low", "normal" or "high": how urgent the user's statements
	// are at most, when clients wait for a shard. Empty: normal.
	Priority string `yaml:"priority,omitempty"`

	// Target is the weft.target that the user's sessions begin with. Empty: as everybody else's.
	Target string `yaml:"target,omitempty"`

	// Exempt: no throttle delays or refuses the user's statements.
	Exempt bool `yaml:"exempt,omitempty"`

	// Role is the user's role on the shards. Empty: Name.
	Role string `yaml:"role,omitempty"`

	// ServerUser is the pool user that weft logs in to shards as, to become
	// Role with SET ROLE. It must not be able to do anything that Role cannot:
	// weft asks each shard, and refuses. Empty: weft logs in as Role.
	ServerUser string `yaml:"server_user,omitempty"`

	// ServerPassword is what weft proves to shards. Empty: Password if that is
	// clear text and weft logs in under Name, else what the client has proved
	// to weft.
	ServerPassword string `yaml:"server_password,omitempty"`
}

// ServerLogin is how weft gets in to a shard for a user.
type ServerLogin struct {
	User     string // whom it logs in as
	Password string // clear text; may be empty
	Role     string // what it becomes with SET ROLE; empty if it is that already
}

// ServerLogin returns how to log in to shards on behalf of u.
func (u *User) ServerLogin() ServerLogin {
	l := ServerLogin{User: u.ServerUser, Password: u.ServerPassword}
	role := u.Role
	if role == "" {
		role = u.Name
	}
	switch l.User {
	case "", role:
		l.User = role
	default:
		l.Role = role
	}
	if l.Password == "" && l.User == u.Name && formOf(u.Password) == formClear {
		l.Password = u.Password
	}
	return l
}

// String returns the name, so that printing a user prints no password.
func (u User) String() string { return u.Name }

// LogValue is the name, for the same reason.
func (u User) LogValue() slog.Value { return slog.StringValue(u.Name) }

func (u *User) validate() error {
	var errs []error
	if err := checkName("name", u.Name); err != nil {
		errs = append(errs, err)
	}
	for i, d := range u.Databases {
		if err := checkName(fmt.Sprintf("database %d", i+1), d); err != nil {
			errs = append(errs, err)
		}
	}
	if strings.ContainsRune(u.Password, 0) {
		errs = append(errs, errors.New("password contains a zero byte"))
	}
	if strings.HasPrefix(u.Password, verifierPrefix) {
		// PostgreSQL would take a broken verifier for clear text; here it is
		// far likelier to be a copying mistake.
		if _, err := parseVerifier(u.Password); err != nil {
			errs = append(errs, fmt.Errorf("password: %w", err))
		}
	}
	switch u.PoolMode {
	case "", "transaction", "session":
	default:
		errs = append(errs, fmt.Errorf("pool_mode %q is not one of transaction, session", u.PoolMode))
	}
	switch u.Priority {
	case "", "low", "normal", "high":
	default:
		errs = append(errs, fmt.Errorf("priority %q is not one of low, normal, high", u.Priority))
	}
	switch u.Target {
	case "", "primary", "standby", "any", "prefer-standby", "auto":
	default:
		errs = append(errs, fmt.Errorf("target %q is not one of primary, standby, any, prefer-standby, auto", u.Target))
	}
	if u.MaxClients < 0 {
		errs = append(errs, fmt.Errorf("max_clients is %d, must not be negative", u.MaxClients))
	}
	if u.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("max_connections is %d, must not be negative", u.MaxConnections))
	}
	if strings.ContainsRune(u.Role, 0) {
		errs = append(errs, errors.New("role contains a zero byte"))
	}
	if strings.ContainsRune(u.ServerUser, 0) {
		errs = append(errs, errors.New("server_user contains a zero byte"))
	}
	if strings.ContainsRune(u.ServerPassword, 0) {
		errs = append(errs, errors.New("server_password contains a zero byte"))
	}
	if f := formOf(u.ServerPassword); f == formMD5 || f == formVerifier {
		errs = append(errs, errors.New("server_password must be clear text"))
	}
	return errors.Join(errs...)
}

// form is how a stored password is written.
type form int

const (
	formNone form = iota
	formClear
	formMD5
	formVerifier
)

func formOf(password string) form {
	switch {
	case password == "":
		return formNone
	case isMD5(password):
		return formMD5
	case strings.HasPrefix(password, verifierPrefix):
		return formVerifier
	}
	return formClear
}

// account is a user made ready for checking.
type account struct {
	user     User
	md5      string    // "md5…"; empty if the stored form cannot answer MD5
	verifier *verifier // nil if the stored form cannot answer SCRAM
}

// newAccount prepares u. A clear-text password is good for both methods; its
// verifier is derived only if some client can be asked for SCRAM.
func newAccount(u User, m mock, scram bool) (*account, error) {
	a := &account{user: u}
	switch formOf(u.Password) {
	case formMD5:
		a.md5 = u.Password
	case formVerifier:
		v, err := parseVerifier(u.Password)
		if err != nil {
			return nil, err
		}
		a.verifier = v
	case formClear:
		a.md5 = md5Password(u.Password, u.Name)
		if scram {
			// The salt an unknown user of this name would be shown: clear-text
			// users and strangers cannot be told apart by their salts.
			v, err := deriveVerifier(u.Password, m.salt(u.Name), defaultIterations)
			if err != nil {
				return nil, err
			}
			a.verifier = v
		}
	}
	return a, nil
}
