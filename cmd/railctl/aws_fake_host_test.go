package main

import "testing"

// What is printed is for the clients: the name by which they reach it, where one is given.
func TestAWSFakeIsNamedForItsClients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, host, want string }{
		{"http://127.0.0.1:4577", "", "http://127.0.0.1:4577"},
		{"http://127.0.0.1:4577", "fake", "http://fake:4577"},
		{"http://[::1]:4577", "fake", "http://fake:4577"},
		{"http://127.0.0.1:4577", "::1", "http://[::1]:4577"},
	} {
		if got := fakeURL(c.url, c.host); got != c.want {
			t.Errorf("%s under %q is %s, want %s", c.url, c.host, got, c.want)
		}
	}
}
