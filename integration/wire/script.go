package wire

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/xdg-go/scram"
)

// answerTimeout is how long a script waits for the next message.
const answerTimeout = 5 * time.Second

// Target is a server that scripts run against.
type Target struct {
	Addr string // host:port clients connect to
	// Defaults of the StartupMessage.
	User, Database string
	// Poll runs a query on the PostgreSQL server behind Addr, never through a
	// proxy, and returns its one boolean.
	Poll func(ctx context.Context, query string) (bool, error)
}

// Script is one run of one file against one target: its open connections.
type Script struct {
	target Target
	conns  map[string]*Conn
}

// NewScript returns a run with no connection open yet.
func NewScript(target Target) *Script {
	return &Script{target: target, conns: map[string]*Conn{}}
}

// Run executes one command and returns what the transcript says of it. An
// error means that the script itself is wrong or the target is unreachable.
func (s *Script) Run(d *datadriven.TestData) (string, error) {
	name := argument(d, "conn", "a")
	switch d.Cmd {
	case "run", "send", "query", "setup":
		// First, because ${a.pid} may be its own.
		if _, err := s.conn(name); err != nil {
			return "", err
		}
	}
	input := s.expand(d.Input)
	switch d.Cmd {
	case "run", "send":
		return s.send(d, name, input)
	case "query", "setup":
		return s.query(d.Cmd == "setup", name, input)
	case "until":
		c, ok := s.conns[name]
		if !ok {
			return "", fmt.Errorf("no connection %s", name)
		}
		out := until(c, names(input))
		if skip := argument(d, "skip", ""); skip != "" {
			out = without(out, skip)
		}
		return out, nil
	case "byte":
		return s.byte(name)
	case "rest":
		return s.rest(name)
	case "dial":
		_, err := s.dial(name)
		return "", err
	case "startup", "connect", "login":
		return s.startup(d, name, input)
	case "cancel":
		return s.cancel(d, name)
	case "wait":
		return s.wait(input)
	case "close":
		return "", s.close(name)
	default:
		return "", fmt.Errorf("unknown command %q", d.Cmd)
	}
}

// argument returns the value of key=value on a command's line.
func argument(d *datadriven.TestData, key, missing string) string {
	if arg, ok := d.Arg(key); ok && len(arg.Vals) == 1 {
		return arg.Vals[0]
	}
	return missing
}

// Close ends every connection politely and returns what the server still had
// to say: a transcript that ends with unread messages is not complete.
func (s *Script) Close() string {
	var left strings.Builder
	open := make([]string, 0, len(s.conns))
	for name := range s.conns {
		open = append(open, name)
	}
	slices.Sort(open)
	for _, name := range open {
		c := s.conns[name]
		_ = c.Write(frame('X', nil), 0) // the peer may be gone already: then the read below says so
		if rest := until(c, []string{"EOF"}); rest != "EOF\n" {
			fmt.Fprintf(&left, "unread on %s:\n%s", name, rest)
		}
		_ = c.Close()
	}
	s.conns = map[string]*Conn{}
	return left.String()
}

var placeholder = regexp.MustCompile(`\$\{(\w+)\.(pid|key)\}`)

// expand fills in ${a.pid} and ${a.key}.
func (s *Script) expand(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(m string) string {
		part := placeholder.FindStringSubmatch(m)
		c := s.conns[part[1]]
		switch {
		case c == nil:
			return m
		case part[2] == "pid":
			return fmt.Sprint(c.pid)
		default:
			return hex.EncodeToString(c.key)
		}
	})
}

// conn returns the named connection, opening it with the defaults if need be.
func (s *Script) conn(name string) (*Conn, error) {
	if c, ok := s.conns[name]; ok {
		return c, nil
	}
	c, err := s.dial(name)
	if err != nil {
		return nil, err
	}
	p, err := encodeStartup("3.0", []string{"user", s.target.User, "database", s.target.Database})
	if err != nil {
		return nil, err
	}
	if err := c.Write(p, 0); err != nil {
		return nil, err
	}
	if out := until(c, []string{"ReadyForQuery"}); !strings.HasSuffix(out, "ReadyForQuery I\n") {
		return nil, fmt.Errorf("connect %s:\n%s", name, out)
	}
	return c, nil
}

func (s *Script) dial(name string) (*Conn, error) {
	if _, ok := s.conns[name]; ok {
		return nil, fmt.Errorf("connection %s is open already", name)
	}
	c, err := Dial(s.target.Addr)
	if err == nil {
		s.conns[name] = c
	}
	return c, err
}

func (s *Script) close(name string) error {
	c, ok := s.conns[name]
	if !ok {
		return fmt.Errorf("no connection %s", name)
	}
	delete(s.conns, name)
	return c.Close()
}

func (s *Script) send(d *datadriven.TestData, name, input string) (string, error) {
	c, err := s.conn(name)
	if err != nil {
		return "", err
	}
	var p []byte
	var wait []string
	for line := range strings.SplitSeq(input, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		m, ready, err := encodeLine(line)
		if err != nil {
			return "", err
		}
		p = append(p, m...)
		for range ready {
			wait = append(wait, "ReadyForQuery")
		}
	}
	chunk, err := strconv.Atoi(argument(d, "chunk", "0"))
	if err != nil {
		return "", err
	}
	if err := c.Write(p, chunk); err != nil && d.Cmd == "run" {
		// The server may have hung up in the middle; what it said before is
		// still there to read.
		wait = []string{"EOF"}
	}
	if d.Cmd == "send" {
		return "", nil
	}
	return until(c, wait), nil
}

func (s *Script) query(setup bool, name, input string) (string, error) {
	c, err := s.conn(name)
	if err != nil {
		return "", err
	}
	if err := c.Write(frame('Q', append([]byte(input), 0)), 0); err != nil {
		return "EOF\n", nil
	}
	out := until(c, []string{"ReadyForQuery"})
	if setup {
		out = onlyTrouble(out)
	}
	return out, nil
}

// onlyTrouble keeps the lines of a transcript that say something failed.
func onlyTrouble(out string) string {
	var keep strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "ErrorResponse") || strings.HasPrefix(line, "EOF") || strings.HasPrefix(line, "TIMEOUT") {
			keep.WriteString(line)
		}
	}
	return keep.String()
}

func (s *Script) byte(name string) (string, error) {
	c, ok := s.conns[name]
	if !ok {
		return "", fmt.Errorf("no connection %s", name)
	}
	b, err := c.readByte(answerTimeout)
	if err != nil {
		return describeEnd(err), nil
	}
	return fmt.Sprintf("byte %q\n", b), nil
}

// rest reads to the end of the connection without looking for messages.
func (s *Script) rest(name string) (string, error) {
	c, ok := s.conns[name]
	if !ok {
		return "", fmt.Errorf("no connection %s", name)
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(c.br)
	if err == nil {
		err = io.EOF
	}
	return strconv.Quote(string(text)) + "\n" + describeEnd(endOf(err)), nil
}

func (s *Script) startup(d *datadriven.TestData, name, input string) (string, error) {
	c, ok := s.conns[name]
	if !ok {
		var err error
		if c, err = s.dial(name); err != nil {
			return "", err
		}
	}
	var params []string
	given := map[string]bool{}
	for line := range strings.SplitSeq(input, "\n") {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), " "); k != "" {
			params = append(params, k, v)
			given[k] = true
		}
	}
	if !d.HasArg("bare") { // bare: exactly the lines below it, no defaults
		if !given["user"] {
			params = append(params, "user", s.target.User)
		}
		if !given["database"] {
			params = append(params, "database", s.target.Database)
		}
	}
	p, err := encodeStartup(argument(d, "protocol", "3.0"), params)
	if err != nil {
		return "", err
	}
	if err := c.Write(p, 0); err != nil {
		return "EOF\n", nil
	}
	switch d.Cmd {
	case "connect":
		return onlyTrouble(until(c, []string{"ReadyForQuery"})), nil
	case "login":
		var user string
		for i := 0; i+1 < len(params); i += 2 {
			if params[i] == "user" {
				user = params[i+1]
			}
		}
		return login(c, user, argument(d, "password", "")), nil
	}
	return "", nil
}

// login answers whatever the server asks for until it is satisfied or gives up.
func login(c *Conn, user, password string) string {
	var out strings.Builder
	var conversation *scram.ClientConversation
	for {
		m, err := c.Read(answerTimeout)
		if err != nil {
			out.WriteString(describeEnd(err))
			return out.String()
		}
		out.WriteString(m.Text(c.pid) + "\n")
		switch m.Name() {
		case "AuthenticationCleartextPassword":
			err = c.Write(frame('p', append([]byte(password), 0)), 0)
		case "AuthenticationMD5Password":
			inner := fmt.Sprintf("%x", md5.Sum([]byte(password+user)))
			outer := fmt.Sprintf("md5%x", md5.Sum(append([]byte(inner), m.Body[4:8]...)))
			err = c.Write(frame('p', append([]byte(outer), 0)), 0)
		case "AuthenticationSASL":
			conversation, err = startSCRAM(c, password)
		case "AuthenticationSASLContinue", "AuthenticationSASLFinal":
			if conversation == nil {
				return out.String() + "challenge before SASL began\n"
			}
			var reply string
			reply, err = conversation.Step(string(m.Body[4:]))
			if err == nil && m.Name() == "AuthenticationSASLContinue" {
				err = c.Write(frame('p', []byte(reply)), 0)
			}
		case "AuthenticationOk", "ErrorResponse":
			return out.String()
		}
		if err != nil {
			return out.String() + err.Error() + "\n"
		}
	}
}

func startSCRAM(c *Conn, password string) (*scram.ClientConversation, error) {
	client, err := scram.SHA256.NewClientUnprepped("", password, "")
	if err != nil {
		return nil, err
	}
	conversation := client.NewConversation()
	first, err := conversation.Step("")
	if err != nil {
		return nil, err
	}
	body := append([]byte("SCRAM-SHA-256"), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(len(first)))
	return conversation, c.Write(frame('p', append(body, first...)), 0)
}

func (s *Script) cancel(d *datadriven.TestData, name string) (string, error) {
	c, ok := s.conns[name]
	if !ok {
		return "", fmt.Errorf("no connection %s", name)
	}
	key := slices.Clone(c.key)
	if d.HasArg("key") { // key=wrong
		key[len(key)-1] ^= 0xff
	}
	other, err := Dial(s.target.Addr)
	if err != nil {
		return "", err
	}
	defer other.Close()
	body := binary.BigEndian.AppendUint32(nil, 80877102)
	body = append(binary.BigEndian.AppendUint32(body, c.pid), key...)
	p := append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
	if err := other.Write(p, 0); err != nil {
		return "", err
	}
	return until(other, []string{"EOF"}), nil
}

// wait polls until the query answers true.
func (s *Script) wait(query string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
	defer stop()
	for {
		ok, err := s.target.Poll(ctx, query)
		switch {
		case ok:
			return "", nil
		case ctx.Err() != nil:
			return "TIMEOUT waiting for the condition\n", nil
		case err != nil:
			return "", fmt.Errorf("wait: %w", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// without drops the messages of one kind whose number depends on timing.
func without(out, name string) string {
	var keep strings.Builder
	for line := range strings.Lines(out) {
		if line != name+"\n" && !strings.HasPrefix(line, name+" ") {
			keep.WriteString(line)
		}
	}
	return keep.String()
}

func names(input string) []string {
	if want := strings.Fields(input); len(want) > 0 {
		return want
	}
	return []string{"ReadyForQuery"}
}

// until reads messages until those in want have come, in that order.
func until(c *Conn, want []string) string {
	var out []string
	for len(want) > 0 {
		m, err := c.Read(answerTimeout)
		if err != nil {
			out = append(out, describeEnd(err))
			break
		}
		out = append(out, m.Text(c.pid)+"\n")
		if m.Name() == want[0] {
			want = want[1:]
		}
	}
	sortParameters(out)
	return strings.Join(out, "")
}

// sortParameters orders neighbouring ParameterStatus messages: their order
// among themselves is PostgreSQL's hash order in some releases.
func sortParameters(out []string) {
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && strings.HasPrefix(out[j], "ParameterStatus") {
			j++
		}
		slices.Sort(out[i:j])
		i = max(j, i+1)
	}
}

func describeEnd(err error) string {
	var ne net.Error
	switch {
	case errors.Is(err, io.EOF):
		return "EOF\n"
	case errors.As(err, &ne) && ne.Timeout():
		return "TIMEOUT: nothing more came\n"
	default:
		return err.Error() + "\n"
	}
}
