package config

import (
	"fmt"
	"strings"
)

// Sources is where secrets come from: the environment and the file system, or
// a test's idea of them.
type Sources struct {
	Env  func(name string) (string, bool)
	File func(path string) ([]byte, error)
}

// ResolveSecrets replaces each password written env:NAME or file:PATH by what
// is there. The error is Problems.
func (c *Config) ResolveSecrets(from Sources) error {
	var ps Problems
	from.resolve(&ps, "etcd.password", &c.Etcd.Password)
	from.resolve(&ps, "auth.mock_secret", &c.Auth.MockSecret)
	from.resolve(&ps, "service.password", &c.Service.Password)
	for i := range c.HTTP.Users {
		from.resolve(&ps, fmt.Sprintf("http.users[%d].password", i), &c.HTTP.Users[i].Password)
	}
	for i := range c.Auth.Users {
		u := &c.Auth.Users[i]
		path := fmt.Sprintf("auth.users[%d]", i)
		from.resolve(&ps, path+".password", &u.Password)
		from.resolve(&ps, path+".server_password", &u.ServerPassword)
	}
	return ps.err()
}

func (from Sources) resolve(ps *Problems, path string, secret *string) {
	if name, ok := strings.CutPrefix(*secret, "env:"); ok {
		v, set := from.Env(name)
		if !set || v == "" {
			// An empty password would mean "no password is right" or, to a
			// shard, "try without": neither is what the file asks for.
			ps.add(path, "the environment variable %s is not set", name)
			return
		}
		*secret = v
	} else if name, ok := strings.CutPrefix(*secret, "file:"); ok {
		b, err := from.File(name)
		if err != nil {
			ps.add(path, "%v", err)
			return
		}
		// Editors and echo end a file with a newline; passwords do not.
		v := strings.TrimRight(string(b), "\r\n")
		if v == "" {
			ps.add(path, "the file %s is empty", name)
			return
		}
		*secret = v
	}
}
