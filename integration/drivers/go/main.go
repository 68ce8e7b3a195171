package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

var suites = map[string]func(*report){
	"pgx":     pgxSuite,
	"pgxpool": poolSuite,
	"stdlib":  stdlibSuite,
	"pq":      pqSuite,
	"gorm":    gormSuite,
	"bun":     bunSuite,
}

func main() {
	if len(os.Args) != 2 || suites[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: suite", strings.Join(slices.Sorted(maps.Keys(suites)), "|"))
		os.Exit(2)
	}
	r := &report{out: os.Getenv("OUT")}
	suites[os.Args[1]](r)
	if r.failed {
		os.Exit(1)
	}
}
