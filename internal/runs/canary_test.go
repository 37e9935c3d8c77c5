package runs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"briefrail/internal/pg/pgtest"
	"briefrail/internal/rail"
	"briefrail/internal/runs"
)

// The canary has a figure of its own and is in none of the users', whether it lands
// or fails; nor is the users' builder asked.
func TestCanaryIsInNoFigureOfTheUsers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	asked := make(chan rail.Key, 10)
	build := builderFunc(func(_ context.Context, r runs.Request) (runs.Frame, runs.Usage, error) {
		asked <- r.Key
		return jsonFrame(`{}`), runs.Usage{}, nil
	})
	canary := rail.Canary()
	// figures are what one worker counted while it served the demand to its end
	figures := func(k rail.Key, outcome string) map[string]float64 {
		reg := prometheus.NewRegistry()
		stop := startCounted(t, reg, db.Pool, build, runnerOptions())
		before := ended(t, db, k, outcome)
		demand(t, db, k, 1)
		eventually(t, "the run has "+outcome, func() bool { return ended(t, db, k, outcome) > before })
		stop() // the run's figures are there when its worker has stopped
		return gathered(t, reg)
	}
	want := map[string]float64{
		"rail_runs_total": 0, "rail_run_errors_total": 0, "rail_run_duration_seconds": 0, "rail_demand_to_frame_seconds": 0,
		"rail_canary_round_trip_seconds": 1,
	}
	if diff := cmp.Diff(want, figures(canary, "landed")); diff != "" {
		t.Errorf("a canary landed (-want +got):\n%s", diff)
	}

	exec(t, db, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	  RAISE EXCEPTION 'no frame of the canary' USING ERRCODE = '23514'; END $$`)
	exec(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON ops.matter_frames FOR EACH ROW EXECUTE FUNCTION refuse()`)
	want["rail_canary_round_trip_seconds"] = 0
	if diff := cmp.Diff(want, figures(canary, "failed")); diff != "" {
		t.Errorf("a canary failed (-want +got):\n%s", diff)
	}
	want["rail_runs_total"], want["rail_run_errors_total"], want["rail_run_duration_seconds"] = 1, 1, 1
	if diff := cmp.Diff(want, figures(newKey(), "failed")); diff != "" {
		t.Errorf("a user's run failed (-want +got):\n%s", diff)
	}

	exec(t, db, `DROP TRIGGER refuse ON ops.matter_frames`)
	want["rail_run_errors_total"], want["rail_demand_to_frame_seconds"] = 0, 1
	if diff := cmp.Diff(want, figures(newKey(), "landed")); diff != "" {
		t.Errorf("a user's run landed (-want +got):\n%s", diff)
	}
	for range len(asked) {
		if k := <-asked; k == canary {
			t.Error("the users' builder was asked for the canary's frame")
		}
	}
}

// ended counts the runs of a matter that ended so.
func ended(t *testing.T, db *pgtest.DB, k rail.Key, outcome string) int {
	t.Helper()
	return one[int](t, db, `SELECT count(*) FROM ops.matter_frame_runs WHERE firm_id = $1 AND matter_id = $2 AND outcome = $3`, k.Firm, k.Matter, outcome)
}

// gathered sums each of the figures about runs over its labels; a histogram counts
// what was observed.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		switch f.GetName() {
		case "rail_runs_total", "rail_run_errors_total", "rail_run_duration_seconds", "rail_demand_to_frame_seconds", "rail_canary_round_trip_seconds":
			for _, m := range f.GetMetric() {
				sums[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sums
}
