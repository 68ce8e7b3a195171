package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// A Store fails with an error that wraps one of these when the reason is
// something a caller can act on.
var (
	// ErrNoCluster: the store answers, and holds no snapshot.
	ErrNoCluster = errors.New("the directory holds no cluster yet: declare its shards with weft apply")
	// ErrUnavailable: the store does not answer. Trying again may help.
	ErrUnavailable = errors.New("the directory is unavailable")
	// ErrDenied: the store answers and refuses the credentials. Trying again
	// will not help.
	ErrDenied = errors.New("the directory refuses access")
)

// Store keeps one snapshot. New features add fields to Snapshot, not methods
// here.
type Store interface {
	// Load returns the stored snapshot, never an outdated one.
	Load(ctx context.Context) (*Snapshot, error)

	// Update replaces the snapshot by what fn makes of it and returns the
	// stored result. fn gets nil if there is no cluster, must not change its
	// argument (Clone it), and runs again if another writer came first.
	// If fn returns its argument or an equal snapshot, nothing is written. An
	// error of fn ends the update and is returned as it is.
	Update(ctx context.Context, fn func(*Snapshot) (*Snapshot, error)) (*Snapshot, error)

	// Watch calls fn with the stored snapshot and then with each newer one
	// soon after it was written, one call at a time; versions may be skipped,
	// the newest never. It returns ctx's error when ctx ends, and otherwise
	// as soon as it cannot promise the above, for the caller to start again.
	Watch(ctx context.Context, fn func(*Snapshot)) error
}

// Proxy is one running proxy, for as long as its lease lives.
type Proxy struct {
	ID      string `json:"id"`             // random, new at each start
	Address string `json:"address"`        // where clients connect
	HTTP    string `json:"http,omitempty"` // where metrics and health are
	Host    string `json:"host"`           // the machine's own name
	Version string `json:"version"`        // of the binary

	// Connections is how many connections to one shard its configuration allows. 0: it is of a
	// version that does not say.
	Connections int `json:"connections,omitempty"`

	// Secret is what another proxy that asks this one something has to know. Who
	// can read the directory does.
	Secret Secret `json:"secret,omitempty"`
	// TLS: it takes questions of other proxies over TLS alone.
	TLS bool `json:"tls,omitempty"`

	// Serves is the version of the snapshot that its statements begin with. Set
	// by the registry.
	Serves int64 `json:"-"`

	// Epoch is the store's revision at which the entry was made. A proxy whose
	// lease ran out gets a new, larger one when it comes back, so a fence can
	// tell its connections of before from those after. Set by the registry.
	Epoch int64 `json:"-"`
}

// Secret is bytes that are not for logs.
type Secret []byte

// String keeps it out of logs.
func (Secret) String() string { return "(secret)" }

// GoString does so under %#v.
func (Secret) GoString() string { return "(secret)" }

// LogValue does so in attributes.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// Serving tells which version a proxy serves. Current does.
type Serving interface {
	// Serving returns the version, and a channel that is closed when it changes.
	Serving() (version int64, changed <-chan struct{})
}

// Registry is the ability of a Store to keep the list of live proxies.
type Registry interface {
	// Register keeps p listed until ctx ends, renewing its lease and entering
	// it again whenever the lease was lost, and then takes it off the list. It
	// tells what p serves, soon after each change. registered is called with
	// each new epoch.
	Register(ctx context.Context, p Proxy, serving Serving, registered func(epoch int64)) error

	// Proxies lists those whose lease lives, ordered by epoch.
	Proxies(ctx context.Context) ([]Proxy, error)

	// Acknowledged returns when every live proxy serves version or a newer one:
	// from then on no statement begins with an older snapshot. Statements that
	// began before may still run. A proxy that stopped answering is waited for
	// until its lease ends. If ctx ends first, the error names who is behind.
	Acknowledged(ctx context.Context, version int64) error
}

// Successor checks that next may replace old: what every Store does between
// fn and the write. The error says which fields are at fault.
func Successor(old, next *Snapshot) error {
	if next == nil {
		return errors.New("update returned no snapshot")
	}
	if err := errors.Join(next.ValidateChange(old), next.validate(old)); err != nil {
		return fmt.Errorf("invalid snapshot: %w", err)
	}
	return nil
}
