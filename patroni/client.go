package patroni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client asks the REST API of Patroni.
type Client struct {
	// HTTP sends requests. Nil: http.DefaultClient.
	HTTP *http.Client
	// User and Password are sent if User is not empty.
	User, Password string
}

// Standing is what Patroni says of a server of the cluster.
type Standing struct {
	Name  string          `json:"name"`
	Role  string          `json:"role"`
	State string          `json:"state"`
	Host  string          `json:"host"`
	Port  int             `json:"port"`
	Lag   json.RawMessage `json:"lag"` // a number of bytes, or "unknown"
}

// Cluster asks for the servers of a cluster.
func (c *Client) Cluster(ctx context.Context, api string) ([]Standing, error) {
	text, err := c.call(ctx, http.MethodGet, api, "cluster", nil)
	if err != nil {
		return nil, err
	}
	var all struct {
		Members []Standing `json:"members"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("patroni: %w", err)
	}
	return all.Members, nil
}

// Switchover asks Patroni to make candidate the primary instead of leader, or any standby if candidate is empty. It returns when Patroni has
// done so, or has given up.
func (c *Client) Switchover(ctx context.Context, api, leader, candidate string) error {
	body := map[string]string{"leader": leader}
	if candidate != "" {
		body["candidate"] = candidate
	}
	_, err := c.call(ctx, http.MethodPost, api, "switchover", body)
	return err
}

// call calls the REST API at the address that a member's APIURL has.
func (c *Client) call(ctx context.Context, method, api, path string, body any) ([]byte, error) {
	base, err := url.Parse(api)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("patroni: %q is not the address of a REST API", api)
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	to := url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/" + path}
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.User != "" {
		req.SetBasicAuth(c.User, c.Password)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("patroni: %w", err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("patroni: %w", err)
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, errors.New("patroni: the REST API wants a user and a password")
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("patroni: %s: %s", resp.Status, strings.TrimSpace(string(out)))
	}
	return out, nil
}
