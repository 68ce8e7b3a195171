package wire

import "strings"

// endOfBatch is what ends a batch of a dialogue: messages that change nothing and are
// answered in every state. How many ReadyForQuery come before depends on what failed.
var endOfBatch = []string{"Close S \x02", "Close S \x02", "Close S \x02", "Sync"}

const endAnswers = "CloseComplete\nCloseComplete\nCloseComplete\n"

// Dialogue sends messages, one a line as in a script, and returns everything that they
// are answered with. The last of them must be a Sync or a Query, and no three Closes may
// follow each other. Pieces of chunk bytes are sent, or all at once if chunk is 0.
func (s *Script) Dialogue(lines []string, chunk int) (string, error) {
	c, err := s.conn("a")
	if err != nil {
		return "", err
	}
	var p []byte
	for _, line := range append(lines[:len(lines):len(lines)], endOfBatch...) {
		m, _, err := encodeLine(line)
		if err != nil {
			return "", err
		}
		p = append(p, m...)
	}
	// An error here is a server that has hung up, which reading tells better.
	_ = c.Write(p, chunk)
	var out []string
	for {
		m, err := c.Read(answerTimeout)
		if err != nil {
			out = append(out, describeEnd(err))
			break
		}
		out = append(out, m.Text(c.pid)+"\n")
		if n := len(out); m.Name() == "ReadyForQuery" && n >= 4 && strings.Join(out[n-4:n-1], "") == endAnswers {
			out = out[:n-4]
			break
		}
	}
	sortParameters(out)
	return strings.Join(out, ""), nil
}
