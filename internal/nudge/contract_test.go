package nudge_test

import (
	"testing"

	"briefrail/internal/nudge/awsfake"
	"briefrail/internal/nudge/nudgetest"
)

// serve runs a fake for one test.
func serve(t *testing.T, opts awsfake.Options) (*awsfake.Server, string) {
	t.Helper()
	s := awsfake.New(opts)
	url, stop, err := s.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return s, url
}

func TestContractOnTheFake(t *testing.T) {
	t.Parallel()
	_, url := serve(t, awsfake.Options{})
	nudgetest.Contract(t.Context(), t, url, nudgetest.Lacks{})
}

func TestSmokeOnTheFake(t *testing.T) {
	t.Parallel()
	_, url := serve(t, awsfake.Options{})
	nudgetest.Smoke(t.Context(), t, url)
}

// TestSmokeOnAWS makes a bus and three queues in the account of the environment and
// removes them: RAIL_TEST_AWS=1 go test -run TestSmokeOnAWS ./internal/nudge
func TestSmokeOnAWS(t *testing.T) {
	t.Parallel()
	if !onAWS() {
		t.Skip("RAIL_TEST_AWS=1 runs it on AWS, which costs next to nothing but needs an account")
	}
	nudgetest.Smoke(t.Context(), t, "")
}
