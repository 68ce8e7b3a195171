package dev

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	if err := (Options{}).Validate(); err != nil {
		t.Errorf("zero options: %v", err)
	}
	for flag, o := range map[string]Options{
		"--shards":       {Shards: 65},
		"--port-base":    {PortBase: 65530},
		"--bucket-count": {BucketCount: 3},
		"--listen":       {Listen: "6432"},
		"--http":         {HTTP: "localhost:http"},
	} {
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), flag+": ") {
			t.Errorf("%+v: got %v, want a complaint about %s", o, err, flag)
		}
	}
}
