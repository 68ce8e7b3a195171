package dev

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// dashboardUser is who may use the dashboard of a dev cluster.
const dashboardUser = "dev"

// dashboardPassword returns the password of the dashboard, which is made at the first start and kept in dir: a browser
// that remembers it can be used again.
func dashboardPassword(dir string) (string, error) {
	path := filepath.Join(dir, "dashboard.password")
	text, err := os.ReadFile(path)
	if password := strings.TrimSpace(string(text)); err == nil && password != "" {
		return password, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	password := strings.ToLower(rand.Text()[:12])
	return password, os.WriteFile(path, []byte(password+"\n"), 0o600)
}
