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
