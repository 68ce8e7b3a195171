package http

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"weft/auth"
)

// User may see what not everybody may.
type User struct {
	Name string
	// Password as auth.User has it: clear text or a verifier.
	Password string
	// Operator may act, not only look.
	Operator bool
}

// userKey is the key of a request's user in its context.
type userKey struct{}

// UserOf returns the user who has sent a request. The name of one whom nobody was asked for is empty.
func UserOf(r *http.Request) User {
	u, _ := r.Context().Value(userKey{}).(User)
	return u
}

// WithUser returns the request as one of a user.
func WithUser(r *http.Request, u User) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), userKey{}, u))
}

// guard asks for a user, by HTTP's basic authentication, wherever what is asked
// for is not open to everybody.
type guard struct {
	next     *http.ServeMux
	open     []string // patterns of next; "" is what there is not
	users    []User
	failures auth.Failures
	log      *slog.Logger
}

// failuresPerMinute is how many wrong passwords one address may send.
const failuresPerMinute = 100

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := g.next.Handler(r); slices.Contains(g.open, pattern) {
		g.next.ServeHTTP(w, r)
		return
	}
	if len(g.users) == 0 {
		http.Error(w, "nobody may see this: weft.yaml has no http.users", http.StatusForbidden)
		return
	}
	addr := remote(r)
	if wait := g.failures.Wait(failuresPerMinute, addr, time.Now()); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		http.Error(w, "too many authentication failures from this address", http.StatusTooManyRequests)
		return
	}
	name, password, given := r.BasicAuth()
	if given {
		if u, known := g.knows(name, password); known {
			g.next.ServeHTTP(w, WithUser(r, u))
			return
		}
	}
	if given {
		g.failures.Note(failuresPerMinute, addr, time.Now())
		g.log.Warn("HTTP authentication failed", "user", name, "client", r.RemoteAddr, "path", r.URL.Path)
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="weft", charset="UTF-8"`)
	http.Error(w, "a user of http.users in weft.yaml is needed", http.StatusUnauthorized)
}

func (g *guard) knows(name, password string) (User, bool) {
	for _, u := range g.users {
		if u.Name == name {
			return u, auth.Check(name, u.Password, password)
		}
	}
	// A stranger's password takes as long: names are nobody's business either.
	auth.Check(name, g.users[0].Password, password)
	return User{}, false
}

// remote is the peer's address; requests come over TCP.
func remote(r *http.Request) net.Addr {
	addr, err := net.ResolveTCPAddr("tcp", r.RemoteAddr) // numbers: nothing is looked up
	if err != nil {
		return nil
	}
	return addr
}
