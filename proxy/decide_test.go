package proxy

import (
	"fmt"
	"strings"
	"testing"

	"weft/parser"
)

var (
	situationNames = []string{noBlock: "none", inBlock: "block", inOwn: "own", inFailed: "failed", inLost: "lost"}
	actNames       = []string{
		planIt: "plan", answerLost: "answer", askFailed: "ask", endFailed: "end", backTo: "back", controlOwn: "control", openBlock: "open",
		endBlock: "end", endNothing: "nothing", importSnapshot: "import", exportSnapshot: "export", runOnAll: "all",
	}
)

// TestDecide: every kind of statement in every situation.
func TestDecide(t *testing.T) {
	const table = `
		                                          none     block    own      failed   lost
		select 1                                | plan     plan     plan     ask      answer
		insert into t values (1)                | plan     plan     plan     ask      answer
		copy t from stdin                       | plan     plan     plan     ask      answer
		create table t (a int)                  | plan     plan     plan     ask      answer
		select 1; select 2                      | plan     plan     plan     ask      answer
		                                        | plan     plan     plan     ask      answer
		nonsense                                | plan     plan     plan     ask      answer
		begin                                   | open     plan     control  ask      answer
		start transaction                       | open     plan     control  ask      answer
		begin isolation level serializable      | open     all      control  ask      answer
		commit                                  | nothing  end      control  end      answer
		end                                     | nothing  end      control  end      answer
		rollback                                | nothing  end      control  end      answer
		commit and chain                        | nothing  end      control  end      answer
		savepoint a                             | all      all      control  ask      answer
		release a                               | all      all      control  ask      answer
		rollback to a                           | all      all      control  back     answer
		set work_mem = '1MB'                    | all      all      all      ask      answer
		set local work_mem = '1MB'              | all      all      all      ask      answer
		reset all                               | all      all      all      ask      answer
		set constraints all deferred            | all      all      all      ask      answer
		set transaction read only               | all      all      all      ask      answer
		set transaction snapshot 'x'            | plan     import   import   ask      answer
		select pg_export_snapshot()             | plan     export   export   ask      answer
		prepare transaction 'x'                 | nothing  end      control  end      answer
		commit prepared 'x'                     | plan     plan     plan     ask      answer
		declare c cursor for select 1           | plan     plan     plan     ask      answer
	`
	for _, line := range strings.Split(table, "\n") {
		text, want, ok := strings.Cut(line, "|")
		if !ok {
			continue
		}
		text = strings.TrimSpace(text)
		f := parser.ParseFacts(text)
		var got []string
		for in := range situationNames {
			got = append(got, actNames[decide(situation(in), []byte(text), f)])
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(want)) {
			t.Errorf("%s: %v, want %v", text, got, strings.Fields(want))
		}
	}
}
