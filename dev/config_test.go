package dev

import (
	"strings"
	"testing"

	"weft/config"
)

// weft serve reads what weft dev writes.
func TestConfigText(t *testing.T) {
	o := Options{Dir: "/tmp/a b", HTTP: "127.0.0.1:6433"}
	c, err := config.Parse("weft.yaml", []byte(configText(o, "127.0.0.1:6432", "http://127.0.0.1:2379")))
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:6434" || c.HTTP.Listen != "" || c.Cluster != clusterName ||
		strings.Join(c.Etcd.Endpoints, " ") != "http://127.0.0.1:2379" {
		t.Errorf("got %+v", c)
	}
}
