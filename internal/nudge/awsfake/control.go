package awsfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// control answers the fake's own calls, for a fake that is a process of its own:
//
//	GET  /_fake/stats                counts and depths
//	GET  /_fake/chaos                the shares now
//	POST /_fake/chaos                {"drop":0.3,"duplicate":0.3,"reorder":0.3,"forge":0.3}; what is left out becomes 0
//	POST /_fake/fault                {"op":"PutEvents","fault":"throttle","share":1}: until clear
//	POST /_fake/clear                no script, no standing fault, no chaos
//	POST /_fake/advance              {"seconds":30}: the fake's clock
//	GET  /_fake/messages?queue=NAME  the bodies of all messages, at most 1000
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /_fake/stats":
		reply(w, s.report())
	case "GET /_fake/chaos":
		s.mu.Lock()
		c := s.chaos
		s.mu.Unlock()
		reply(w, c)
	case "POST /_fake/chaos":
		var c Chaos
		if accept(w, r, &c) && sane(w, c) {
			s.SetChaos(c)
			reply(w, c)
		}
	case "POST /_fake/fault":
		s.controlFault(w, r)
	case "POST /_fake/clear":
		s.Clear()
		s.SetChaos(Chaos{})
		reply(w, struct{}{})
	case "POST /_fake/advance":
		var in struct{ Seconds float64 }
		if accept(w, r, &in) {
			s.Advance(time.Duration(in.Seconds * float64(time.Second)))
			reply(w, in)
		}
	case "GET /_fake/messages":
		bodies := append([]string{}, s.Bodies(r.URL.Query().Get("queue"))...)
		reply(w, bodies[:min(len(bodies), 1000)])
	default:
		http.Error(w, "the fake has no "+r.Method+" "+r.URL.Path, http.StatusNotFound)
	}
}

// namedFault returns a fault that can be had without an argument.
func namedFault(name string) (Fault, bool) {
	switch name {
	case "throttle":
		return Throttle(), true
	case "expired_credentials":
		return ExpiredCredentials(), true
	case "denied":
		return Denied(), true
	case "internal_failure":
		return Refuse(http.StatusInternalServerError, "InternalFailure"), true
	case "missing_queue":
		return Refuse(0, "QueueDoesNotExist"), true
	case "reset_first":
		return ResetFirst(), true
	case "accept_then_reset":
		return AcceptThenReset(), true
	case "hang":
		return Hang(), true
	case "accept_then_hang":
		return AcceptThenHang(), true
	case "drop":
		return DropAfterAccept(), true
	case "duplicate":
		return Duplicate(), true
	case "reorder":
		return Reorder(), true
	case "fail_first_entry":
		return FailEntry(0, "InternalFailure"), true
	case "poison_first_entry":
		return FailEntryBySender(0, "InvalidArgument"), true
	case "omit_first_entry":
		return OmitEntry(0), true
	case "html":
		return Garbage(http.StatusOK, "text/html", "<html>sign in</html>"), true
	}
	return Fault{}, false
}

func (s *Server) controlFault(w http.ResponseWriter, r *http.Request) {
	in := struct {
		Op, Fault string
		Share     float64
	}{Op: "*", Share: 1}
	if !accept(w, r, &in) {
		return
	}
	f, known := namedFault(in.Fault)
	if !known || in.Share < 0 || in.Share > 1 {
		http.Error(w, fmt.Sprintf("no fault %q with share %v", in.Fault, in.Share), http.StatusBadRequest)
		return
	}
	s.Always(in.Op, in.Share, f)
	reply(w, in)
}

// depth is the messages of one queue by state.
type depth struct {
	Visible  int `json:"visible"`
	InFlight int `json:"in_flight"`
	Delayed  int `json:"delayed"`
}

// report is the answer of /_fake/stats.
type report struct {
	Stats

	Queues map[string]depth `json:"queues"`
}

func (s *Server) report() report {
	r := report{Stats: s.Stats(), Queues: make(map[string]depth)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.queueNames() {
		visible, inFlight, delayed := s.queues[name].depth(s.now())
		r.Queues[name] = depth{visible, inFlight, delayed}
	}
	return r
}

// accept reads a small JSON body.
func accept(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// sane refuses shares outside 0 to 1.
func sane(w http.ResponseWriter, c Chaos) bool {
	for _, share := range []float64{c.Drop, c.Duplicate, c.Reorder, c.Forge} {
		if share < 0 || share > 1 {
			http.Error(w, "a share is from 0 to 1", http.StatusBadRequest)
			return false
		}
	}
	return true
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a caller that is gone needs no answer
}
