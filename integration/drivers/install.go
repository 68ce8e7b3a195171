package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// installLimit is generous: a first run fetches packages.
const installLimit = 15 * time.Minute

// install runs the install.sh of each language that is needed, and returns by folder why
// it failed.
func install(ctx context.Context, folder string, chosen []suite, out io.Writer) map[string]error {
	failed := map[string]error{}
	for _, s := range chosen {
		if _, done := failed[s.Dir]; done {
			continue
		}
		began := time.Now()
		failed[s.Dir] = installLanguage(ctx, folder, s)
		if took := time.Since(began); took > time.Second && failed[s.Dir] == nil {
			fmt.Fprintf(out, "installed what %s needs (%.1f s)\n", s.Name, took.Seconds())
		}
	}
	return failed
}

func installLanguage(ctx context.Context, folder string, s suite) error {
	build, err := buildDir(s.Dir)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, installLimit)
	defer stop()
	script := "install.sh"
	if s.Install != "" {
		script = filepath.Join(folder, s.Install, script)
	}
	cmd := exec.CommandContext(ctx, "sh", script)
	cmd.Dir = filepath.Join(folder, s.Dir)
	cmd.Env = append(os.Environ(), "BUILD="+build)
	said := &tail{limit: tailLimit}
	cmd.Stdout, cmd.Stderr = said, said
	if err := endWhole(cmd); err != nil {
		return fmt.Errorf("install.sh: %w\n%s", err, said)
	}
	return nil
}

// buildDir is where a language puts what it fetches and builds: it outlives the run, and is
// not in the tree.
func buildDir(dir string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(filepath.ToSlash(dir), "../../"), "/", "-")
	build := filepath.Join(cache, "weft-drivers", name)
	return build, os.MkdirAll(build, 0o755)
}
