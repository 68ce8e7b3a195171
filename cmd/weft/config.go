package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"weft/config"
	"weft/directory/etcd"
	"weft/server"
)

// loadConfig reads weft.yaml with its secrets.
func loadConfig(file string) (config.Config, error) {
	cfg, err := config.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return cfg, fmt.Errorf("%w: name the file with -c; config/example.yaml is one to start from", err)
	}
	if err != nil {
		return cfg, fmt.Errorf("invalid configuration:\n%w", err)
	}
	if err := cfg.ResolveSecrets(secrets()); err != nil {
		return cfg, fmt.Errorf("%s: %w", file, err)
	}
	return cfg, nil
}

func secrets() config.Sources {
	return config.Sources{Env: os.LookupEnv, File: os.ReadFile}
}

// newLogger writes to w as cfg says; cfg is valid.
func newLogger(cfg config.Log, w io.Writer) *slog.Logger {
	log, _ := newLoggerVar(cfg, w)
	return log
}

// newLoggerVar also returns what changes its level.
func newLoggerVar(cfg config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(cfg.Level)) // validated: one of the four
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

// source is the flags of a command that looks into the directory: a weft.yaml,
// or endpoints and a cluster's name.
type source struct {
	config  string
	etcd    []string
	cluster string
}

func (s *source) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&s.config, "config", "c", "", "weft.yaml that says where the directory is")
	f.StringSliceVar(&s.etcd, "etcd", nil, "etcd endpoints, instead of --config")
	f.StringVar(&s.cluster, "cluster", "", "name of the cluster, beside --etcd (default "+config.Default().Cluster+")")
}

func (s *source) open() (*etcd.Store, error) {
	store, _, err := s.openWith()
	return store, err
}

// openWith also returns a configuration whose service user can be logged in with. If
// its password is not on this machine, it has none.
func (s *source) openWith() (*etcd.Store, config.Config, error) {
	cfg, err := s.load()
	if err != nil {
		return nil, cfg, err
	}
	// etcd's own messages would only come between the lines of ours.
	store, err := server.OpenDirectory(cfg, slog.New(slog.DiscardHandler))
	return store, cfg, err
}

func (s *source) load() (config.Config, error) {
	cfg := config.Default()
	service := config.Default()
	switch {
	case s.config != "" && (len(s.etcd) > 0 || s.cluster != ""):
		return cfg, &usageError{errors.New("--config already says where the directory is: leave out --etcd and --cluster")}
	case s.config == "" && len(s.etcd) == 0:
		return cfg, &usageError{errors.New("where is the directory? give --config weft.yaml or --etcd host:port")}
	case s.config != "":
		c, err := config.Load(s.config)
		if err != nil {
			return cfg, fmt.Errorf("invalid configuration:\n%w", err)
		}
		// Users' passwords are none of this command's business, and need not
		// be there on the machine it runs on.
		cfg.Cluster, cfg.Etcd = c.Cluster, c.Etcd
		service.Service, service.Pool = c.Service, c.Pool
		for _, u := range c.Auth.Users {
			if u.Name == c.Service.User {
				service.Auth.Users = append(service.Auth.Users, u)
			}
		}
	default:
		cfg.Etcd.Endpoints = s.etcd
		if s.cluster != "" {
			cfg.Cluster = s.cluster
		}
		if err := cfg.Validate(); err != nil {
			return cfg, &usageError{err}
		}
	}
	if err := cfg.ResolveSecrets(secrets()); err != nil {
		return cfg, err
	}
	if service.ResolveSecrets(secrets()) == nil {
		cfg.Service, cfg.Pool, cfg.Auth.Users = service.Service, service.Pool, service.Auth.Users
	}
	return cfg, nil
}
