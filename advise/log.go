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

// ReadSQL reads a text of statements, as if one session had sent them one after the other. Each counts
// as one call.
func ReadSQL(text string, key recording.Key) (*Traffic, error) {
	tree, err := parser.ParseTree(text, parser.Options{})
	if err != nil {
		return nil, fmt.Errorf("read statements: %w", err)
	}
	t := newTraffic(key)
	for _, s := range tree.Split(len(text)) {
		t.add("", text[s.Start:s.End], nil, 0)
	}
	t.end()
	return t, nil
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
	b := bufio.NewReaderSize(r, 1<<16)
	first, err := b.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	next := csvEntries(b)
	if first[0] == '{' {
		next = jsonEntries(b)
	}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			t.end()
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		if database == "" || e.Database == database {
			t.entry(e)
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

func (t *Traffic) entry(e entry) {
	m := logged.FindStringSubmatch(e.Message)
	if m == nil {
		return
	}
	ms, _ := strconv.ParseFloat(m[1], 64) // 0 if the log has no times
	var params []recording.Value
	if _, list, ok := strings.Cut(e.Detail, "arameters: "); ok {
		for _, p := range parameter.FindAllStringSubmatch(list, -1) {
			var v recording.Value
			if strings.HasSuffix(p[0], "'") {
				v = t.key.Text([]byte(strings.ReplaceAll(p[1], "''", "'")))
			}
			params = append(params, v)
		}
	}
	t.add(e.Session, m[2], params, ms)
}

// add counts one execution.
func (t *Traffic) add(of, text string, params []recording.Value, ms float64) {
	s := t.sessions[of]
	if s == nil {
		s = &session{}
		t.sessions[of] = s
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
	t.Statements[at].Time += ms
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
