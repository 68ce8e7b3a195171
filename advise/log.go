package advise

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"weft/parser"
	"weft/recording"
)

// Traffic is statements that were read one by one, with the transactions that they were part of.
type Traffic struct {
	Statements   []Statement
	Transactions []recording.Transaction
	// Unread is how many statements could not be read.
	Unread int

	key      recording.Key
	index    map[int64]int
	sessions map[string]*session
}

// session is a session of a log, and its transaction.
type session struct {
	open bool // a block is open
	tx   recording.Transaction
}

func newTraffic(key recording.Key) *Traffic {
	return &Traffic{key: key, index: map[int64]int{}, sessions: map[string]*session{}}
}

// Execution is one execution of a text.
type Execution struct {
	Session string
	Text    string
	// Params are the values of $1, $2, … as text, nil for NULL. None if they are not known.
	Params [][]byte
	Time   float64 // in milliseconds
}

// ReadSQL reads a text of statements, as if one session had sent them one after the other. Each counts
// as one call. Statements that do not parse are counted in Unread, unless none parses.
func ReadSQL(text string, key recording.Key) (*Traffic, error) {
	t := newTraffic(key)
	var bad error
	EachSQL(text, func(x Execution) {
		if _, err := parser.Parse(x.Text); err != nil {
			t.Unread++
			bad = err
			return
		}
		t.add(x)
	})
	if bad != nil && len(t.Statements) == 0 {
		return nil, fmt.Errorf("read statements: %w", bad)
	}
	t.end()
	return t, nil
}

// EachSQL calls f for each statement of a text.
func EachSQL(text string, f func(Execution)) {
	for _, s := range parser.SplitStatements(text) {
		f(Execution{Text: s})
	}
}

// entry is what a line of PostgreSQL's log says, in either format.
type entry struct {
	Database string `json:"dbname"`
	Session  string `json:"session_id"`
	Message  string `json:"message"`
	Detail   string `json:"detail"`
}

// errLog says that a log is in another format.
var errLog = errors.New("it is neither jsonlog nor csvlog: set log_destination to one of them")

// ReadLog reads PostgreSQL's log of statements, in the format jsonlog or csvlog. With a database it
// leaves out those of others.
func ReadLog(r io.Reader, database string, key recording.Key) (*Traffic, error) {
	t := newTraffic(key)
	if err := EachLog(r, database, t.add); err != nil {
		return nil, err
	}
	t.end()
	return t, nil
}

// EachLog calls f for each statement that PostgreSQL has logged, as ReadLog reads them.
func EachLog(r io.Reader, database string, f func(Execution)) error {
	b := bufio.NewReaderSize(r, 1<<16)
	first, err := b.Peek(1)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	next := csvEntries(b)
	if first[0] == '{' {
		next = jsonEntries(b)
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		if database != "" && e.Database != database {
			continue
		}
		if x, ok := e.execution(); ok {
			f(x)
		}
	}
}

func jsonEntries(r io.Reader) func() (entry, error) {
	d := json.NewDecoder(r)
	return func() (e entry, err error) {
		return e, d.Decode(&e)
	}
}

func csvEntries(r io.Reader) func() (entry, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	return func() (entry, error) {
		row, err := c.Read()
		if err != nil {
			return entry{}, err
		}
		if len(row) < 23 {
			return entry{}, errLog
		}
		return entry{Database: row[2], Session: row[5], Message: row[13], Detail: row[14]}, nil
	}
}

var (
	// logged matches what log_statement, log_duration and log_min_duration_statement write.
	logged = regexp.MustCompile(`(?s)^(?:duration: ([0-9.]+) ms  )?(?:statement|execute [^:]*): (.*)$`)
	// parameter matches one parameter in the detail of such a line.
	parameter = regexp.MustCompile(`\$\d+ = (?:NULL|'((?:[^']|'')*)')`)
)

// execution returns the execution that a line tells of, if it does.
func (e *entry) execution() (Execution, bool) {
	m := logged.FindStringSubmatch(e.Message)
	if m == nil {
		return Execution{}, false
	}
	x := Execution{Session: e.Session, Text: m[2]}
	x.Time, _ = strconv.ParseFloat(m[1], 64) // 0 if the log has no times
	if _, list, ok := strings.Cut(e.Detail, "arameters: "); ok {
		for _, p := range parameter.FindAllStringSubmatch(list, -1) {
			var v []byte
			if strings.HasSuffix(p[0], "'") {
				v = []byte(strings.ReplaceAll(p[1], "''", "'"))
			}
			x.Params = append(x.Params, v)
		}
	}
	return x, true
}

// add counts one execution.
func (t *Traffic) add(x Execution) {
	s := t.sessions[x.Session]
	if s == nil {
		s = &session{}
		t.sessions[x.Session] = s
	}
	text := x.Text
	var params []recording.Value
	for _, p := range x.Params {
		var v recording.Value
		if p != nil {
			v = t.key.Text(p)
		}
		params = append(params, v)
	}
	var scan parser.Scanner
	if !scan.Scan([]byte(text), parser.Options{}) {
		t.Unread++
		return
	}
	switch first, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(parser.Statement(string(scan.Norm)))), " "); strings.TrimSuffix(first, ";") {
	case "begin", "start":
		s.open = true
		return
	case "commit", "end", "rollback", "abort":
		s.open = false
		t.finish(s)
		return
	}
	normal := strings.TrimSuffix(parser.Statement(string(scan.Norm)), ";")
	h := fnv.New64a()
	_, _ = h.Write([]byte(normal)) // never fails
	id := int64(h.Sum64())
	at, ok := t.index[id]
	if !ok {
		at = len(t.Statements)
		t.index[id] = at
		t.Statements = append(t.Statements, Statement{ID: id, Text: normal})
	}
	t.Statements[at].Calls++
	t.Statements[at].Time += x.Time
	for _, l := range scan.Literals {
		v, ok := l.AppendValue(nil, []byte(text), parser.Options{})
		if !ok {
			v = []byte(text[l.Start:l.End])
		}
		params = append(params, t.key.Text(v))
	}
	if len(s.tx) < recording.MaxExecutions {
		s.tx = append(s.tx, recording.Execution{ID: id, Values: params})
	}
	if !s.open {
		t.finish(s)
	}
}

func (t *Traffic) finish(s *session) {
	if len(s.tx) > 0 && len(t.Transactions) < recording.MaxTransactions {
		t.Transactions = append(t.Transactions, s.tx)
	}
	s.tx = nil
}

// end finishes the transactions that are open at the end.
func (t *Traffic) end() {
	var names []string
	for name := range t.sessions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.finish(t.sessions[name])
	}
}
