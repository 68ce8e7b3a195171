package patroni

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Settings are those of a cluster's dynamic configuration that weft depends on.
type Settings struct {
	TTL             seconds `json:"ttl"`
	SynchronousMode word    `json:"synchronous_mode"`
	FailsafeMode    word    `json:"failsafe_mode"`
	// MaximumLag is how many bytes a standby that is promoted may be behind. Nil: as Patroni has it by default.
	MaximumLag *float64 `json:"maximum_lag_on_failover"`
	PostgreSQL struct {
		Parameters map[string]any `json:"parameters"`
	} `json:"postgresql"`
}

// seconds is a number of seconds, which may be written as text.
type seconds float64

// UnmarshalJSON implements json.Unmarshaler.
func (s *seconds) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*s = seconds(n)
	return err
}

// word is a switch that is on, off, or a word such as quorum.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *word) UnmarshalJSON(text []byte) error {
	*w = word(strings.ToLower(strings.Trim(string(text), `"`)))
	return nil
}

// on reports whether the switch is on, in any way.
func (w word) on() bool {
	switch w {
	case "", "false", "off", "no", "0", "null":
		return false
	}
	return true
}

// defaultTTL is Patroni's.
const defaultTTL = 30

// Settings reads the dynamic configuration from the keys of the cluster.
func (s Scope) Settings(keys map[string]string) (Settings, error) {
	out := Settings{TTL: defaultTTL}
	text, ok := keys[s.Prefix()+"config"]
	if !ok {
		return out, fmt.Errorf("etcd has no key %sconfig: does Patroni run, with this etcd, scope and namespace?", s.Prefix())
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return out, fmt.Errorf("read %sconfig: %w", s.Prefix(), err)
	}
	return out, nil
}

// defaultMaximumLag is Patroni's.
const defaultMaximumLag = 1 << 20

// Complaints are what does not go well with weft, whose clients wait for a primary as long as wait, in a cluster that declares a durability: sync, atomic,
// async, or nothing.
func (s *Settings) Complaints(wait time.Duration, durability string) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if ttl := time.Duration(float64(s.TTL) * float64(time.Second)); ttl >= wait {
		say("ttl is %s, and failover.wait is %s: clients get errors before Patroni promotes a standby of a machine that is gone", ttl, wait)
	}
	lag := float64(defaultMaximumLag)
	if s.MaximumLag != nil {
		lag = *s.MaximumLag
	}
	switch {
	case s.SynchronousMode.on():
	case durability == "sync" || durability == "atomic":
		say("synchronous_mode is off, and the cluster declares durability %s: a failover may lose up to maximum_lag_on_failover, %.0f bytes, of what was acknowledged", durability, lag)
	case durability != "async":
		say("synchronous_mode is off: a failover may lose the last commits, up to maximum_lag_on_failover, %.0f bytes, and halves of transactions over several shards", lag)
	case lag > defaultMaximumLag:
		say("maximum_lag_on_failover is %.0f: a failover may lose so many bytes", lag)
	}
	if !s.FailsafeMode.on() {
		say("failsafe_mode is off: Patroni stops every primary when etcd is away")
	}
	if n := s.prepared(); n < 1 {
		say("postgresql.parameters.max_prepared_transactions is 0: transactions over several shards need it, on standbys too")
	}
	return out
}

// prepared is max_prepared_transactions, 0 if it is not set.
func (s *Settings) prepared() int {
	n, _ := strconv.Atoi(strings.TrimSuffix(fmt.Sprint(s.PostgreSQL.Parameters["max_prepared_transactions"]), ".0"))
	return n
}
