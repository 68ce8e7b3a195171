package config

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
)

// Load reads weft.yaml. The error holds every problem of the file.
func Load(file string) (Config, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(file, data)
}

// Parse is Load with the file's text at hand; file is its name in messages.
func Parse(file string, data []byte) (Config, error) {
	c := Default()
	d := decode(file, data, &c)
	return c, d.finish(c.problems())
}

// Marshal writes c so that Parse reads it back.
func (c Config) Marshal() ([]byte, error) {
	b, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return b, nil
}
