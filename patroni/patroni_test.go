package patroni

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// keys are what Patroni 3.0 has written, but for the address of the REST API.
func keys(api string) map[string]string {
	return map[string]string{
		"/service/shop-1/config":     `{"ttl":20}`,
		"/service/shop-1/leader":     "n1",
		"/service/shop-1/members/n1": `{"conn_url":"postgres://10.0.0.1:5432/postgres","api_url":"` + api + `/patroni","state":"running","role":"master","version":"3.0.2","xlog_location":50332408,"timeline":2}`,
		"/service/shop-1/members/n3": `{"conn_url":"postgres://[fd00::3]:6000/postgres","api_url":"http://10.0.0.3:8008/patroni","state":"running","role":"replica","tags":{"nofailover":true}}`,
		"/service/shop-1/members/n2": `{"conn_url":"postgres://10.0.0.2/postgres","api_url":"http://10.0.0.2:8008/patroni","state":"running","role":"replica"}`,
		"/service/shop-1/members/n4": `{"api_url":"http://10.0.0.4:8008/patroni","state":"creating replica","role":"uninitialized"}`,
		"/service/shop-10/leader":    "other",
	}
}

// TestMembers: servers are found in the keys of their scope, and no other.
func TestMembers(t *testing.T) {
	s := Scope{Scope: "shop-1"}
	hosts, err := s.Hosts(keys("http://a:1"))
	if got := strings.Join(hosts, " "); err != nil || got != "10.0.0.1:5432 10.0.0.2:5432 [fd00::3]:6000" {
		t.Errorf("%s, %v", got, err)
	}
	if got := s.Leader(keys("")); got != "n1" {
		t.Errorf("leader %q", got)
	}
	for scope, want := range map[Scope]string{
		{Scope: "a"}: "/service/a/", {Scope: "a", Namespace: "db"}: "/db/a/", {Scope: "a", Namespace: "/db/pg/"}: "/db/pg/a/",
	} {
		if got := scope.Prefix(); got != want {
			t.Errorf("%+v: %s", scope, got)
		}
	}
	if _, err := s.Members(map[string]string{"/service/shop-1/members/n1": "{"}); err == nil {
		t.Error("a key that is no JSON is read")
	}
	for _, bad := range []string{"", "a/b", "a b"} {
		if (Scope{Scope: bad}).Validate() == nil {
			t.Errorf("%q is a scope", bad)
		}
	}
}

// TestSwitch: Patroni is asked for another primary, if a standby can take its place.
func TestSwitch(t *testing.T) {
	var asked string
	standings := `{"members":[{"name":"n1","role":"leader","state":"running"},{"name":"n2","role":"sync_standby","state":"streaming"},{"name":"n3","role":"replica","state":"streaming"},
		{"name":"n4","role":"replica","state":"creating replica","lag":"unknown"}]}`
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.Method == http.MethodPost && (user != "u" || password != "p") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/cluster" {
			_, _ = io.WriteString(w, standings)
			return
		}
		text, _ := io.ReadAll(r.Body)
		var body map[string]string
		if json.Unmarshal(text, &body) != nil || body["candidate"] == "n5" {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		asked = r.Method + " " + r.URL.Path + " " + string(text)
	}))
	defer api.Close()
	cluster := func(to string) *Cluster {
		return &Cluster{
			Client: &Client{User: "u", Password: "p"}, Scope: Scope{Scope: "shop-1"}, To: to,
			Keys: func(context.Context) (map[string]string, error) { return keys(api.URL), nil },
		}
	}
	for to, want := range map[string]string{
		"":              `POST /switchover {"leader":"n1"}`,
		"n2":            `POST /switchover {"candidate":"n2","leader":"n1"}`,
		"10.0.0.2:5432": `POST /switchover {"candidate":"n2","leader":"n1"}`,
	} {
		c := cluster(to)
		if err := c.Check(t.Context()); err != nil {
			t.Errorf("to %q: %v", to, err)
		}
		if err := c.Switch(t.Context()); err != nil || asked != want {
			t.Errorf("to %q: %v, %s", to, err, asked)
		}
	}
	for to, want := range map[string]string{
		"n1": "is the primary already", "n3": "n3 is a replica, streaming", "n4": "n4 is a replica, creating replica", "n9": "n1 at 10.0.0.1:5432, n2 at 10.0.0.2:5432",
	} {
		if err := cluster(to).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %s: %v", to, err)
		}
	}
	c := cluster("")
	c.Client = &Client{}
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Switch(t.Context()); err == nil || !strings.Contains(err.Error(), "wants a user and a password") {
		t.Errorf("without a password: %v", err)
	}
	c.Scope.Scope = "shop-2"
	if err := c.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "/service/shop-2/members/") {
		t.Errorf("another scope: %v", err)
	}
	standings = `{"members":[{"name":"n1","role":"leader","state":"running"}]}`
	if err := cluster("").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no standby") {
		t.Errorf("a primary alone: %v", err)
	}
	api.Close()
	if err := cluster("").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "n1, does not answer") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("without the primary's Patroni: %v", err)
	}
}
