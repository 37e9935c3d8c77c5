package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"briefrail/internal/authority"
	"briefrail/internal/rail"
)

const oldSideHelp = `--old-side is the URL of whatever stands for the other writer, and speaks two calls
(examples/legacy has one):

  POST URL/v1/catch-up {"scope","final_sequence"}   200 once everything up to there is
                                                    brought in, or over to it on the way back
  GET  URL/v1/heads?scope=SCOPE&up_to=N             200 [{"firm_id","matter_id","revision","digest"}]
                                                    the current frame of each matter, its digest
                                                    (SHA-256 of RFC 8785) in hexadecimal

Both are made inside the pause. Without it nobody is asked, and the verification goes
by what is imported.`

// oldSide is the other writer's own account of itself.
type oldSide struct{ url string }

// oldSideTimeout bounds one call. The closing's deadline ends the pause before that
// where it is shorter.
const oldSideTimeout = 30 * time.Second

// checkOldSide refuses a URL that no call could go to.
func checkOldSide(text string) (*oldSide, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, fail(exitUsage, "--old-side: want http(s)://HOST[:PORT], without user or password")
	}
	return &oldSide{text}, nil
}

// catchUp has everything up to the final sequence brought over.
func (o *oldSide) catchUp(ctx context.Context, ch authority.Change) error {
	if o == nil || ch.FinalSequence == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{"scope": ch.Scope, "final_sequence": *ch.FinalSequence})
	if err != nil {
		return err
	}
	_, err = o.call(ctx, http.MethodPost, "/v1/catch-up", body)
	return err
}

// heads asks for the frames that are current there; nil where there is nobody to ask.
func (o *oldSide) heads() authority.Heads {
	if o == nil {
		return nil
	}
	return func(ctx context.Context, scope string, upTo int64) ([]authority.Head, error) {
		query := url.Values{"scope": {scope}, "up_to": {strconv.FormatInt(upTo, 10)}}
		text, err := o.call(ctx, http.MethodGet, "/v1/heads?"+query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		return readHeads(text)
	}
}

func readHeads(text []byte) ([]authority.Head, error) {
	var said []struct {
		rail.Key
		Revision int64  `json:"revision"`
		Digest   string `json:"digest"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("heads of the old side: %w", err)
	}
	out := make([]authority.Head, len(said))
	for i, h := range said {
		digest, err := hex.DecodeString(h.Digest)
		if err != nil || len(digest) != 32 {
			return nil, fmt.Errorf("heads of the old side: matter %s: the digest is not 32 bytes in hexadecimal", h.Matter)
		}
		out[i] = authority.Head{Key: h.Key, Revision: h.Revision, Digest: digest}
	}
	return out, nil
}

// mostHeads bounds an answer: a bucket of a million matters fits.
const mostHeads = 256 << 20

func (o *oldSide) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, o.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the old side: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: oldSideTimeout}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the old side: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, mostHeads))
	if err != nil {
		return nil, fmt.Errorf("the old side: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the old side: %s %s: %s: %.200s", method, path, res.Status, oneLine(string(text)))
	}
	return text, nil
}

// crossing takes a change from wherever it is to its end, and has the other side catch
// up once nothing more can be written there. told hears of each phase. What the other
// side did not bring over is found by the verification, which gives the scope back.
func crossing(ctx context.Context, ctl authority.Controller, id rail.UUID, old *oldSide, told func(authority.Change)) (authority.Change, error) {
	ctl, release, err := ctl.Alone(ctx)
	if err != nil {
		return authority.Change{}, err
	}
	defer release()
	ch, err := authority.ChangeOf(ctx, ctl.DB, id)
	if err == nil && ch.Phase == "shadowed" {
		err = ctl.Rehearse(ctx, ch)
	}
	if err != nil {
		return ch, err
	}
	steps := map[string]func(context.Context, rail.UUID) (authority.Change, error){"shadowed": ctl.Close, "closing": ctl.Drain, "drained": ctl.Seal}
	for step := steps[ch.Phase]; step != nil; step = steps[ch.Phase] {
		before := ch.Phase
		if ch, err = step(ctx, id); err != nil || ch.Phase == before {
			break // Cross knows what to do about a closing that does not go on
		}
		told(ch)
	}
	if err != nil {
		return ch, err
	}
	behind := error(nil)
	if ch.Phase == "sealed" {
		behind = old.catchUp(ctx, ch)
	}
	ch, err = ctl.Cross(ctx, id, old.heads())
	if ch.Outcome != "" {
		told(ch)
	}
	if err != nil && behind != nil {
		err = fmt.Errorf("%w; it had not caught up: %w", err, behind)
	}
	return ch, err
}
