package proxy

import "weft/parser"

// While a program runs, its messages are handled in the place of the client's. The parts of a session that follow the client's messages
// put their state aside: to the program, no message of its own has come yet, and the open block is its own.

// leave returns the state of the text that runs, and forgets it until comeBack.
func (k *script) leave() script {
	before := *k
	*k = script{s: k.s}
	return before
}

func (k *script) comeBack(before script) { *k = before }

// leave returns the state of the implicit block, and forgets it until comeBack.
func (im *implicit) leave() implicit {
	before := *im
	*im = implicit{s: im.s}
	return before
}

func (im *implicit) comeBack(before implicit) { *im = before }

// asidePipe is the state of a pipe that concerns the client's messages.
type asidePipe struct {
	course    course
	midFrame  bool
	parsedNow []*statement
}

// leave returns the state that concerns the client's messages, and forgets it until comeBack. All messages have been answered.
func (p *pipe) leave() asidePipe {
	before := asidePipe{p.course, p.midFrame, p.parsedNow}
	p.course, p.midFrame, p.parsedNow = heeds, false, nil
	return before
}

func (p *pipe) comeBack(before asidePipe) {
	p.course, p.midFrame, p.parsedNow = before.course, before.midFrame, before.parsedNow
}

// asideAccount is what is counted of the client's statement.
type asideAccount struct {
	run     run
	bound   bound1
	unnamed *parser.Facts
	parent  string
	shards  []string
}

// leave returns what is counted of the client's statement, and forgets it until comeBack.
func (a *account) leave() asideAccount {
	before := asideAccount{a.run, a.bound, a.unnamed, a.parent, a.shards}
	a.run, a.bound, a.unnamed, a.shards = run{}, bound1{}, nil, nil
	return before
}

func (a *account) comeBack(before asideAccount) {
	a.run, a.bound, a.unnamed, a.parent, a.shards = before.run, before.bound, before.unnamed, before.parent, before.shards
	a.shard = nil
	a.warm.begin() // the statements of the program have been counted
	if a.run.began != 0 {
		a.shown.Store(a.run.facts)
		a.shownAt.Store(a.run.began)
	}
}

// interject gives the client whole messages at once, although a program hears the answers. All earlier answers have been given.
func (o *answers) interject(b []byte) error {
	o.passed += uint64(len(b))
	if _, err := o.s.client.Write(b); err != nil {
		return errEnd
	}
	return nil
}
