package proxy

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"weft/catalog"
	"weft/pool"
	"weft/sequence"
)

// Shards' copies of sequences give no values but those of their lots. A command that makes or changes sequences would meet the ends of
// lots, and leaves copies ready to count. So lots end before the command, and copies are used up behind it, in its
// transaction.

// concernsSequences finds commands that may make or change a sequence.
var concernsSequences = regexp.MustCompile(`(?i)serial|identity|sequence|nextval|restart|\b(like|execute|type|drop)\b`)

// execElsewhere runs a command on another shard than the home shard. later says that the shard's own values of sequences
// are needed after the command: then the sequences are used up by sealElsewhere.
func (ev *everywhere) execElsewhere(c *pool.Conn, command string, later bool) error {
	concerns := concernsSequences.MatchString(command)
	if concerns {
		own, err := ev.s.srv.keeper.owns.Ensure(ev.s.srv.ctx, c.Shard(), ev.s.db.Name)
		if err != nil {
			return err
		}
		named := command
		if ev.s.out.encoding != "UTF8" {
			named = inASCII(command) // the shard proves the text as it reads it
		}
		if err := ev.execBeside(c, sequence.EndLotsSQL(named, own.Prove(c.PID(), sequence.EndLots, named))); err != nil {
			return err
		}
	}
	err := ev.execBeside(c, catalog.Carried(command))
	if err != nil || !concerns || later {
		return err
	}
	return ev.execBeside(c, sequence.SealSQL)
}

// sealElsewhere uses up what a command has made of sequences on all other shards.
func (ev *everywhere) sealElsewhere() error {
	return ev.withOthers(func(_ int, c *pool.Conn) error { return ev.execBeside(c, sequence.SealSQL) })
}

// inASCII returns a text without other characters.
func inASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return -1
		}
		return r
	}, text)
}
