// Package runs owns ops.matter_frame_runs, one row an attempt, and the worker's
// loop: claim, build, land.
//
// States of a run: running, then once and for ever landed, failed, expired (its
// lease ran out), fenced (its token was stale while it was still running),
// released (handed back at a stop, or because the builder and not the matter was
// at fault) or cancelled (by a person). A zombie's refused write is noted beside
// the outcome that it already has.
//
// While a build runs nothing of the database is held: no connection, no lock, no
// transaction. The landing is one statement whose first act is to lock the job row
// under the token; a stale token writes nothing. When the answer of a landing is
// lost, its run row tells what happened before anything else is done: a frame that
// may have landed is never reported failed, nor built again before asking.
//
// Postgres decides which token is served; the process's own clock may only make
// it stop sooner. Not promised: exactly one call of the builder. A crash between
// its answer and the landing pays twice; run_id as idempotency key covers retries
// inside a run, retry_of names the attempt before.
package runs
