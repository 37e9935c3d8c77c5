package authority_test

import (
	"context"
	"testing"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

// Each difference has one class, by a rule with a name; what none explains is unknown.
func TestCompare(t *testing.T) {
	t.Parallel()
	rules := []authority.Rule{
		{Name: "transport ids", Class: authority.Representation, Path: "**.request_id"},
		{Name: "no notes before", Class: authority.LegacyUnsupported, Path: "notes.**", Explains: func(before, _ any) bool { return before == nil }},
		{Name: "counts lag", Class: authority.ProjectionLag, Path: "documents.*.pages"},
		{Name: "wrong court", Class: authority.MigrationDefect, Path: "court"},
	}
	for what, c := range map[string]struct{ before, after, class string }{
		"the same":                      {`{"a": 1, "b": [1, 2]}`, `{"b": [1, 2], "a": 1}`, authority.Same},
		"numbers spelt otherwise":       {`{"a": 1.50, "b": 1e2}`, `{"a": 1.5, "b": 100}`, authority.Same},
		"members that say nothing":      {`{"a": 1, "b": null, "c": "", "d": [], "e": {"f": {}}}`, `{"a": 1}`, authority.Same},
		"another transport id":          {`{"m": {"request_id": "1"}}`, `{"m": {"request_id": "2"}}`, authority.Representation},
		"notes that were not kept":      {`{}`, `{"notes": {"by": "x"}}`, authority.LegacyUnsupported},
		"notes that were":               {`{"notes": {"by": "y"}}`, `{"notes": {"by": "x"}}`, authority.Unexplained},
		"pages that lag":                {`{"documents": [{"pages": 1}]}`, `{"documents": [{"pages": 2}]}`, authority.ProjectionLag},
		"a court that is known wrong":   {`{"court": "a"}`, `{"court": "b"}`, authority.MigrationDefect},
		"history in another order":      {`{"history": [1, 2]}`, `{"history": [2, 1]}`, authority.Unexplained},
		"history that is shorter":       {`{"history": [1, 2]}`, `{"history": [1]}`, authority.Unexplained},
		"a revision that differs":       {`{"revision": 1}`, `{"revision": 2}`, authority.Unexplained},
		"false is not absent":           {`{"policy": false}`, `{}`, authority.Unexplained},
		"zero is not absent":            {`{"n": 0}`, `{}`, authority.Unexplained},
		"the worst of several":          {`{"court": "a", "x": 1}`, `{"court": "b", "x": 2}`, authority.Unexplained},
		"a big number that is not that": {`{"n": 9007199254740993}`, `{"n": 9007199254740992}`, authority.Unexplained},
		"text is not a number":          {`{"n": "1"}`, `{"n": 1}`, authority.Unexplained},
	} {
		d, err := authority.Compare([]byte(c.before), []byte(c.after), rules)
		if err != nil || d.Class != c.class {
			t.Errorf("%s: %+v, %v, want %s", what, d, err, c.class)
		}
	}
	for _, broken := range []string{``, `{`, `nope`} {
		if _, err := authority.Compare([]byte(broken), []byte(`{}`), nil); err == nil {
			t.Errorf("%q is compared", broken)
		}
	}
}

// Only explained differences let a change close; each class is made by changing the
// rail's side.
func TestOnlyExplainedDifferencesClose(t *testing.T) {
	t.Parallel()
	for class, blocks := range map[string]bool{
		authority.Representation: false, authority.LegacyUnsupported: false, authority.ProjectionLag: false,
		authority.MigrationDefect: true, authority.Unexplained: true,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.mustWrite(t, s.key, `{"x": 1}`)
			s.imports(t, s.scope)
			m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Deadline: time.Minute, Budget: time.Minute}
			if _, err := s.c.Plan(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			o := authority.ShadowOptions{Build: func(context.Context, rail.Key) (authority.ShadowFrame, error) {
				return authority.ShadowFrame{JSON: []byte(`{"x": 2}`), Digest: digestOf([]byte(`{"x": 2}`)), SchemaVersion: "1", Builder: "rail"}, nil
			}}
			if class != authority.Unexplained {
				o.Rules = []authority.Rule{{Name: "x is " + class, Class: class, Path: "x"}}
			}
			_, sum, err := s.c.Shadow(t.Context(), m.Change, o)
			if err != nil || len(sum) != 1 || sum[0].Difference != class || sum[0].Matters != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			ch, err := s.c.Cross(t.Context(), m.Change, nil)
			if blocks {
				wantState(t, class, err, "RF422")
			} else if err != nil || ch.Outcome != "advanced" {
				t.Fatalf("%+v, %v", ch, err)
			}
		})
	}
}

// A difference of a frame that a newer one has taken the place of, and been compared,
// keeps nothing from closing, and is none for the watches. Of a matter that was purged
// no shadow stays.
func TestASupersededDifferenceIsHistory(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"x": 1}`)
	s.imports(t, s.scope)
	m := authority.Move{Change: rail.NewUUID(), Scope: s.scope, To: "rail", Deadline: time.Minute, Budget: time.Minute}
	if _, err := s.c.Plan(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	shadow := func(build func(context.Context, rail.Key) (authority.ShadowFrame, error)) {
		if _, _, err := s.c.Shadow(t.Context(), m.Change, authority.ShadowOptions{Build: build}); err != nil {
			t.Fatal(err)
		}
	}
	shadow(func(context.Context, rail.Key) (authority.ShadowFrame, error) {
		return authority.ShadowFrame{JSON: []byte(`{"x": 2}`), Digest: digestOf([]byte(`{"x": 2}`)), SchemaVersion: "1", Builder: "rail"}, nil
	})
	_, err := s.c.Close(t.Context(), m.Change)
	s.wantRefusal(t, err, "change_unexplained")
	s.mustWrite(t, s.key, `{"x": 2}`)
	s.imports(t, s.scope)
	shadow(s.sameFrame)
	if ch, err := s.c.Cross(t.Context(), m.Change, s.heads); err != nil || ch.Outcome != "advanced" {
		t.Fatalf("%s, %v", ch.Phase, err)
	}
	if readings, err := authority.Readings(t.Context(), s.Pool, time.Minute); err != nil || len(readings) != 0 {
		t.Errorf("%+v, %v", readings, err)
	}
	exec(t, s.Pool, `SELECT ops.purge_matter($1, $2, 'test', 'a test')`, s.key.Firm, s.key.Matter)
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.shadow_frames`); n != 0 {
		t.Errorf("%d shadows of a purged matter", n)
	}
}
