package authority_test

import (
	"crypto/sha256"
	"errors"
	"sync"
	"testing"

	"briefrail/internal/authority"
	"briefrail/internal/pg"
	"briefrail/internal/rail"
)

func (s *stage) intent(payload string) authority.Intent {
	return authority.Intent{ID: rail.NewUUID(), Key: s.key, Kind: authority.Regenerate, Digest: sha256.Sum256([]byte(payload))}
}

func (s *stage) submit(t *testing.T, i authority.Intent, want string) authority.Answer {
	t.Helper()
	a, err := authority.Submit(t.Context(), s.Pool, i)
	if err != nil || a.Verdict != want {
		t.Fatalf("%+v, %v, want %s", a, err, want)
	}
	return a
}

// An intent is judged once: again, it is the same answer, whoever asks and whenever.
func TestAnIntentIsJudgedOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	before := s.submit(t, s.intent("early"), authority.EpochChanged)
	if before.Writer != "old" || before.Endpoint == "" || before.Epoch != 1 {
		t.Errorf("who has authority is not said: %+v", before)
	}
	s.cross(t)

	i := s.intent("p")
	first := s.submit(t, i, authority.Accepted)
	again := s.submit(t, i, authority.Accepted)
	if first.Replayed || !again.Replayed || string(again.ResultDigest) != string(first.ResultDigest) || first.Epoch != 2 {
		t.Errorf("%+v, then %+v", first, again)
	}
	found, err := authority.Find(t.Context(), s.Pool, i.ID)
	if err != nil || string(found.Result) != string(first.Result) {
		t.Errorf("%+v, %v", found, err)
	}
	other := i
	other.Digest = sha256.Sum256([]byte("q"))
	if a := s.submit(t, other, authority.OtherDigest); string(a.PayloadDigest) != string(i.Digest[:]) {
		t.Errorf("the digest that is stored is not told: %+v", a)
	}
	if n := value[int64](t, s.Pool, `SELECT demands_owed FROM ops.matter_frame_jobs`); n != 1 {
		t.Errorf("%d demands of one intent", n)
	}
	if _, err := authority.Find(t.Context(), s.Pool, rail.NewUUID()); !errors.Is(err, authority.ErrUnknown) {
		t.Errorf("an intent that nobody sent: %v", err)
	}

	stale, past := s.intent("stale"), int64(1)
	stale.Epoch = &past
	s.submit(t, stale, authority.EpochChanged)
	conflict, seen := s.intent("conflict"), int64(77)
	conflict.Expected = &seen
	if a := s.submit(t, conflict, authority.Refused); a.Revision == seen {
		t.Errorf("%+v", a)
	}
	s.submit(t, conflict, authority.Refused)
	unknown := s.intent("kind")
	unknown.Kind = "brief.shred"
	if _, err := authority.Submit(t.Context(), s.Pool, unknown); err == nil {
		t.Error("an unknown kind is accepted")
	}
}

// An id belongs to everything that the intent said the first time; what differs is told
// by name. What an old writer did not keep is no difference.
func TestAnIntentKeepsItsContent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	old := s.intent("old")
	if err := authority.ImportIntent(t.Context(), s.importer, old, authority.Accepted, nil, "legacy"); err != nil {
		t.Fatal(err)
	}
	bent := old
	bent.Digest = sha256.Sum256([]byte("bent"))
	err := authority.ImportIntent(t.Context(), s.importer, bent, authority.Refused, nil, "legacy")
	if wantState(t, "another intent of an imported id", err, "RF409"); pg.Constraint(err) != "import_intent_differs" {
		t.Error(err)
	}
	s.cross(t)
	seen, now, stale := int64(77), value[int64](t, s.Pool, `SELECT ops.matter_revision($1, $2)`, s.key.Firm, s.key.Matter), int64(1)
	old.Expected = &now
	if a := s.submit(t, old, authority.Accepted); !a.Replayed {
		t.Errorf("%+v", a)
	}
	refused := s.intent("p")
	refused.Expected = &seen
	s.submit(t, refused, authority.Refused)
	for what, differs := range map[string]func(*authority.Intent){
		`["expected_revision"]`:                   func(i *authority.Intent) { i.Expected = &now },
		`["payload_digest", "expected_revision"]`: func(i *authority.Intent) { i.Expected, i.Digest = nil, old.Digest },
		`["matter_id"]`:                           func(i *authority.Intent) { i.Key.Matter = rail.NewUUID() },
		`["firm_id"]`:                             func(i *authority.Intent) { i.Key.Firm, i.Epoch = rail.NewUUID(), &stale },
	} {
		other := refused
		differs(&other)
		if a := s.submit(t, other, authority.OtherDigest); string(a.Result) != `{"differs": `+what+`}` {
			t.Errorf("%s: %s", what, a.Result)
		}
	}
	if n := value[int64](t, s.Pool, `SELECT coalesce(sum(demands_owed), 0) FROM ops.matter_frame_jobs`); n != 0 {
		t.Errorf("%d executions of an intent that was refused", n)
	}
}

// Clients of an old epoch are evidence, and no flood of it.
func TestStaleClientsAreNotedNowAndThen(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.cross(t)
	past := int64(1)
	for range 20 {
		i := s.intent("stale")
		i.Epoch = &past
		s.submit(t, i, authority.EpochChanged)
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.fence_evidence WHERE kind = 'stale_epoch'`); n == 0 {
		t.Error("not noted")
	}
	if n := value[int64](t, s.Pool, `SELECT count(*) FROM ops.fence_evidence a JOIN ops.fence_evidence b ON a.scope = b.scope AND a.kind = b.kind
		AND a.id < b.id AND b.seen_at - a.seen_at < interval '900 milliseconds'`); n != 0 {
		t.Errorf("%d pairs of notes within a second", n)
	}
}

// While a scope is closing the same intent is to come again; what was refused under an
// epoch may be judged again under a later one.
func TestAnIntentDuringAClosing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	there := s.cross(t)
	refused, seen := s.intent("p"), int64(77)
	refused.Expected = &seen
	s.submit(t, refused, authority.Refused)
	back := s.planBack(t, there.ID)
	s.until(t, back, "closing")
	i := s.intent("during")
	if a := s.submit(t, i, authority.Closing); a.RetryAfter == nil || *a.RetryAfter <= 0 {
		t.Errorf("when to come back is not said: %+v", a)
	}
	if _, err := s.c.Abort(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	s.submit(t, i, authority.Accepted)
	if a := s.submit(t, refused, authority.Refused); !a.Replayed || a.Epoch != 2 {
		t.Errorf("judged twice under one epoch: %+v", a)
	}
	s.back(t, there.ID)
	s.cross(t)
	if a := s.submit(t, refused, authority.Refused); a.Replayed || a.Epoch != 4 {
		t.Errorf("not judged again under a later epoch: %+v", a)
	}
}

// Any number of clients with one intent make one decision.
func TestRaceOfOneIntent(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	s.cross(t)
	i := s.intent("p")
	var clients sync.WaitGroup
	digests := make([]string, 8)
	for n := range digests {
		clients.Go(func() {
			if a, err := authority.Submit(t.Context(), s.Pool, i); err != nil || a.Verdict != authority.Accepted {
				t.Errorf("%+v, %v", a, err)
			} else {
				digests[n] = string(a.ResultDigest)
			}
		})
	}
	clients.Wait()
	for _, d := range digests {
		if d != digests[0] {
			t.Error("two results of one intent")
		}
	}
	if n := value[int64](t, s.Pool, `SELECT demands_owed FROM ops.matter_frame_jobs`); n != 1 {
		t.Errorf("%d demands of one intent", n)
	}
}

// An intent of the old writer whose outcome nobody knows blocks, until it is known.
func TestAnUnknownIntentBlocks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.mustWrite(t, s.key, `{"n": 1}`)
	i := s.intent("old")
	bring := func(outcome string) {
		if err := authority.ImportIntent(t.Context(), s.importer, i, outcome, nil, "legacy"); err != nil {
			t.Fatal(err)
		}
	}
	bring(authority.Unknown)
	if ch, err := s.c.Cross(t.Context(), s.planned(t, nil), s.heads); !errors.Is(err, authority.ErrBlocked) {
		t.Fatalf("%+v, %v", ch, err)
	}
	bring(authority.Accepted)
	s.cross(t)
	if a := s.submit(t, i, authority.Accepted); !a.Replayed {
		t.Errorf("the old writer's intent is executed again: %+v", a)
	}
}
