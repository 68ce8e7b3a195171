package main

// suite is one application, written with one driver.
type suite struct {
	Name string // language/driver
	Dir  string // the language's folder here
	// Command runs in Dir. A variable of the environment is written $NAME.
	Command []string
}

// suites are all there are, in the order in which they run: the quick ones first.
var suites = []suite{
	{Name: "psql/smoke", Dir: "psql", Command: []string{"sh", "smoke.sh"}},
	{Name: "node/pg", Dir: "node", Command: nodeCommand("pg.js")},
}

// nodeCommand runs a file where install.sh has put the packages beside it.
func nodeCommand(file string) []string {
	return []string{"node", "--preserve-symlinks", "--preserve-symlinks-main", "$BUILD/src/" + file}
}
