package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// The errors of a Store wrap one of these if the caller can act on the reason.
var (
	// ErrNoCluster says that the store answers, and holds no snapshot.
	ErrNoCluster = errors.New("the directory holds no cluster yet: declare its shards with weft apply")
	// ErrUnavailable says that the store does not answer. Trying again may help.
	ErrUnavailable = errors.New("the directory is unavailable")
	// ErrDenied says that the store answers and refuses the credentials. Trying again will not
	// help.
	ErrDenied = errors.New("the directory refuses access")
)

// Store keeps one snapshot. New features add fields to Snapshot, not methods to Store.
type Store interface {
	// Load returns the stored snapshot, never an outdated one.
	Load(ctx context.Context) (*Snapshot, error)

	// Update replaces the snapshot by the result of fn and returns the stored snapshot. fn gets
	// nil if there is no cluster, must not change its argument (Clone it), and runs again if
	// another writer came first. If fn returns its argument or an equal snapshot, nothing is
	// written. An error of fn ends the update and is returned unchanged.
	Update(ctx context.Context, fn func(*Snapshot) (*Snapshot, error)) (*Snapshot, error)

	// Watch calls fn with the stored snapshot and then with each newer one soon after it was
	// written, one call at a time; versions may be skipped, the newest never. Watch returns the
	// error of ctx when ctx ends. It also returns when it cannot keep these promises; the caller
	// then calls it again.
	Watch(ctx context.Context, fn func(*Snapshot)) error
}

// Proxy is one running proxy, for as long as its lease lives.
type Proxy struct {
	ID      string `json:"id"`             // random, new at each start
	Address string `json:"address"`        // where clients connect
	HTTP    string `json:"http,omitempty"` // where metrics and health are
	Host    string `json:"host"`           // host name of the machine
	Version string `json:"version"`        // version of the binary

	// Connections is how many connections to one shard the proxy's configuration allows. 0: the
	// proxy's version does not say.
	Connections int `json:"connections,omitempty"`

	// Level says which additions to the encoding the proxy reads. Set by the registry.
	Level int `json:"level,omitempty"`

	// Secret is what another proxy must know to ask this one something. Any process that
	// can read the directory knows the secret.
	Secret Secret `json:"secret,omitempty"`
	// TLS says that the proxy takes questions of other proxies only over TLS.
	TLS bool `json:"tls,omitempty"`

	// Serves is how far the proxy has followed the directory. Set by the registry.
	Serves Served `json:"-"`

	// Epoch is the store's revision at which the entry was made. A proxy whose lease ran out gets
	// a larger epoch when it comes back, so a fence can tell the proxy's old connections from its
	// new ones. Set by the registry.
	Epoch int64 `json:"-"`
}

// Secret is bytes that must not be logged.
type Secret []byte

// String keeps the secret out of logs.
func (Secret) String() string { return "(secret)" }

// GoString keeps the secret out of %#v.
func (Secret) GoString() string { return "(secret)" }

// LogValue keeps the secret out of log attributes.
func (Secret) LogValue() slog.Value { return slog.StringValue("(secret)") }

// Served is how far a proxy has followed the directory.
type Served struct {
	// Version is the version that statements begin with.
	Version int64
	// Cleared is the newest version up to which nothing is in flight that the version's rounds
	// must wait for. It is Version where there is no round.
	Cleared int64
}

// Serving tells how far a proxy has followed the directory. Current implements it.
type Serving interface {
	// Serving returns how far, and a channel that is closed when that changes.
	Serving() (Served, <-chan struct{})
}

// Registry is the ability of a Store to keep the list of live proxies.
type Registry interface {
	// Register keeps p listed until ctx ends, renewing its lease and entering p again whenever the
	// lease was lost, and then removes p from the list. It publishes which version p serves, soon
	// after each change. registered is called with each new epoch.
	Register(ctx context.Context, p Proxy, serving Serving, registered func(epoch int64)) error

	// Proxies lists the proxies whose lease lives, ordered by epoch.
	Proxies(ctx context.Context) ([]Proxy, error)

	// Live is Proxies, and says since when the list is as it is.
	Live(ctx context.Context) (Live, error)

	// Acknowledged returns when every live proxy serves version or a newer one:
	// from then on no statement begins with an older snapshot. Statements that
	// began before may still run. A proxy that stopped answering is waited for
	// until its lease ends. If ctx ends first, the error names the proxies behind.
	Acknowledged(ctx context.Context, version int64) error

	// Cleared is Acknowledged, and also waits for what is in flight: when it returns, no live
	// proxy has a transaction that a round of that version must wait for, nor begins one.
	Cleared(ctx context.Context, version int64) error
}

// Successor checks that next may replace old. Every Store calls it between fn and the write. The
// error says which fields are at fault.
func Successor(old, next *Snapshot) error {
	if next == nil {
		return errors.New("update returned no snapshot")
	}
	if err := errors.Join(next.ValidateChange(old), next.validate(old)); err != nil {
		return fmt.Errorf("invalid snapshot: %w", err)
	}
	return nil
}
