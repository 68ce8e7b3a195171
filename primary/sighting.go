package primary

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"weft/pgerr"
)

// Kind is what a server has answered to a probe, in one word.
type Kind uint8

// The kinds of answers.
const (
	// Unseen says that the server has not been probed yet.
	Unseen Kind = iota
	// Refused says that nothing listens at the server's address.
	Refused
	// Unreachable says that there is no way to the address, or that the login was cut off.
	Unreachable
	// Silent says that no answer has come in time.
	Silent
	// ShuttingDown and StartingUp say that the server takes no logins now.
	ShuttingDown
	StartingUp
	// Unable says that the server answers, but not this question: weft's login is refused, or the server is full.
	Unable
	// Standby says that the server is in recovery.
	Standby
	// Primary says that the server is not in recovery.
	Primary
)

// String describes the answer of a server, for a sentence that begins with its address.
func (k Kind) String() string {
	return [...]string{
		"has not been asked yet", "refuses connections", "cannot be reached", "does not answer", "is shutting down", "is starting up",
		"does not let weft log in", "is a standby", "is a primary",
	}[k]
}

// Sighting is what one probe has seen of one server.
type Sighting struct {
	Kind Kind
	// At is when the probe was sent, on the clock of this process. What the server says was true at that time or later.
	At time.Time
	// Err is why there is no answer. Nil for Standby and Primary.
	Err error

	// The rest is what the server has answered, and zero for other kinds than Standby and Primary.

	Generation Generation
	// Parent is the timeline that a primary's one has left. 0: not known, or the first timeline.
	Parent uint32
	// LSN is how far a primary has written, or a standby has replayed. Received is how far a standby has received.
	LSN, Received LSN
	// ReplayedAt is when the last transaction was committed that a standby has replayed, and Clock is the time now: both
	// on the clocks of servers.
	ReplayedAt, Clock time.Time
	// Started is when the server was started. Two addresses of one server say the same.
	Started time.Time
	// ReadOnly says that transactions are read only unless they ask for more.
	ReadOnly bool
	// SyncNames is synchronous_standby_names, SyncStates is sync_state of each standby that is attached, and Flushed is
	// the least that any attached standby has flushed of those that can be synchronous, or of all if none can.
	SyncNames  string
	SyncStates []string
	Flushed    LSN
}

// Probe asks a server what it is, on a primary and on a standby alike. Its row is for ReadSighting. pg_is_in_recovery is asked once: a
// server that says no stays a primary, and what is asked of a standby is answered by a primary, too.
const Probe = `SELECT r.recovery, (SELECT system_identifier FROM pg_catalog.pg_control_system()), ` +
	`CASE WHEN r.recovery THEN coalesce((SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver), (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint())) ELSE ` + TimelineSQL + ` END, ` +
	`CASE WHEN r.recovery THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, ` +
	`pg_catalog.pg_last_wal_receive_lsn(), ` +
	`(1000000 * pg_catalog.date_part('epoch', pg_catalog.pg_last_xact_replay_timestamp()))::bigint, ` +
	`(1000000 * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()))::bigint, ` +
	`(1000000 * pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()))::bigint, ` +
	`pg_catalog.current_setting('default_transaction_read_only'), pg_catalog.current_setting('synchronous_standby_names'), a.states, a.flushed ` +
	`FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovery OFFSET 0) r, ` +
	`(SELECT pg_catalog.string_agg(sync_state, ',' ORDER BY sync_state) AS states, ` +
	`coalesce(min(flush_lsn) FILTER (WHERE sync_state <> 'async'), min(flush_lsn)) AS flushed FROM pg_catalog.pg_stat_replication WHERE state = 'streaming') a`

// TimelineSQL is the timeline of a primary, as a number. It fails on a standby.
const TimelineSQL = `('x' || pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int`

// ReadSighting reads the answer to Probe. NULL is an empty text.
func ReadSighting(rows [][]string) (Sighting, error) {
	if len(rows) != 1 || len(rows[0]) != 12 {
		return Sighting{}, errors.New("a server has not answered the probe with one row")
	}
	r, errs := rows[0], []error(nil)
	number := func(text string) int64 {
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		errs = append(errs, err)
		return n
	}
	lsn := func(text string) LSN {
		l, err := ParseLSN(text)
		errs = append(errs, err)
		return l
	}
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		return time.UnixMicro(number(text))
	}
	s := Sighting{
		Kind:       Primary,
		Generation: Generation{System: r[1], Timeline: uint32(number(r[2]))},
		LSN:        lsn(r[3]), Received: lsn(r[4]), ReplayedAt: at(r[5]), Clock: at(r[6]), Started: at(r[7]),
		ReadOnly: r[8] == "on", SyncNames: r[9], Flushed: lsn(r[11]),
	}
	if r[10] != "" {
		s.SyncStates = strings.Split(r[10], ",")
	}
	if r[0] == "t" {
		s.Kind = Standby
	}
	return s, errors.Join(errs...)
}

// HistorySQL asks for the history of a timeline. It fails for roles that may not read files of the server. The answer is for ReadFork.
func HistorySQL(timeline uint32) string {
	return fmt.Sprintf("SELECT pg_catalog.pg_read_file('pg_wal/%08X.history', 0, 1000000, true)", timeline)
}

// ReadFork returns the LSN at which a timeline left its parent, and the parent, from the timeline's history: the last line tells. It returns 0 if the text
// does not tell.
func ReadFork(history string) (fork LSN, parent uint32) {
	for line := range strings.Lines(history) {
		fields := strings.Fields(line)
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if l, err := ParseLSN(fields[1]); err == nil {
			n, _ := strconv.ParseUint(fields[0], 10, 32)
			fork, parent = l, uint32(n)
		}
	}
	return fork, parent
}

// Failed returns the sighting of a server that could not be asked.
func Failed(err error) Sighting { return Sighting{Kind: kindOf(err), Err: err} }

// kindOf says what an error of a login or a probe tells of its server.
func kindOf(err error) Kind {
	var e *pgerr.Error
	answered := errors.As(err, &e) && e.Routine != "" // only servers name a routine
	switch {
	case answered && (e.Code == pgerr.AdminShutdown || e.Code == "57P02" || e.Code == pgerr.CannotConnectNow && strings.Contains(e.Message, "shutting down")):
		return ShuttingDown
	case answered && e.Code == pgerr.CannotConnectNow:
		return StartingUp
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, context.DeadlineExceeded):
		return Silent
	case answered:
		return Unable
	case e != nil && e.Code != pgerr.ConnectionFailure:
		return Unable // weft itself could not log in, with the proof it has
	}
	return Unreachable
}
