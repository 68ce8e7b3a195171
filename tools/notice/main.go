// Command notice writes NOTICE: the modules that are linked into weft, with their licences.
//
//	go run ./tools/notice               write NOTICE
//	go run ./tools/notice -texts FILE   write the licences' full texts, for a release
//
// It reads the module cache, and nothing else: no network is needed where weft has been built.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "the directory of go.mod")
	texts := flag.String("texts", "", "write the full texts of all licences to this file instead")
	flag.Parse()
	if err := run(*root, *texts); err != nil {
		fmt.Fprintln(os.Stderr, "notice:", err)
		os.Exit(1)
	}
}

func run(root, texts string) error {
	modules, err := linked(root)
	if err != nil {
		return err
	}
	if texts != "" {
		return os.WriteFile(texts, []byte(full(modules)), 0o644)
	}
	return os.WriteFile(filepath.Join(root, "NOTICE"), []byte(notice(modules)), 0o644)
}
