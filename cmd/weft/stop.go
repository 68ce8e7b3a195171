//go:build weftstop

package main

import (
	"os"
	"strings"
	"syscall"
	"time"

	"weft/twopc"
)

// stopAt makes the process stop at a point that a test has named: the variable WEFT_STOP
// is the path of a file, and that holds the point and what happens there.
//
//	after-prepare die     the process kills itself
//	after-prepare wait    it makes the file <path>.reached, and goes on when
//	                      the file is gone
//
// The first who comes there takes the file: nobody else stops.
func stopAt() func(twopc.Point) {
	path := os.Getenv("WEFT_STOP")
	if path == "" {
		return nil
	}
	return func(p twopc.Point) {
		b, err := os.ReadFile(path)
		if err != nil {
			return
		}
		point, what, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
		if point != string(p) || os.Rename(path, path+".reached") != nil {
			return
		}
		if what == "die" {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		for err == nil {
			time.Sleep(5 * time.Millisecond)
			_, err = os.Stat(path + ".reached")
		}
	}
}
