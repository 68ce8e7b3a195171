package dev

import (
	"fmt"
	"path/filepath"

	"weft/config"
)

// clusterName is the cluster's name in the directory.
const clusterName = "dev"

func configPath(dir string) string { return filepath.Join(dir, "weft.yaml") }

// configText is weft.yaml for another proxy of the same cluster. Its addresses
// are not those of this one, so that it can be used as it is.
func configText(o Options, listen, endpoint string) string {
	return fmt.Sprintf(`# Written by weft dev at every start. Another proxy for the same cluster:
#   weft serve -c %s --listen %s
cluster: %s
etcd:
  endpoints:
    - %s
listen: %q
http:
  listen: "" # none; --http gives it one
auth:
  # As on the shards: everybody on this machine is trusted, nobody else gets in.
  method: trust
  rules:
    - {type: host, address: 127.0.0.0/8}
    - {type: host, address: ::1/128}
log:
  level: warn
`, configPath(o.Dir), another(listen, o.HTTP), clusterName, endpoint, another(listen, o.HTTP))
}

// writeConfig writes weft.yaml and returns the configuration of this run's own
// proxy: the same but for its addresses.
func (c *cluster) writeConfig(listen string) (config.Config, error) {
	path := configPath(c.opts.Dir)
	text := []byte(configText(c.opts, listen, c.etcd.Endpoint()))
	cfg, err := config.Parse(path, text)
	if err != nil {
		return cfg, err
	}
	cfg.Listen, cfg.HTTP.Listen = listen, c.opts.HTTP
	if c.password, err = dashboardPassword(c.opts.Dir); err != nil {
		return cfg, err
	}
	cfg.HTTP.Users = []config.HTTPUser{{Name: dashboardUser, Password: c.password, Operator: true}}
	return cfg, writeFile(path, text)
}
