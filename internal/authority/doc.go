// Package authority moves the right to write a matter's frames from one writer to
// another, a scope at a time, without an instant in which two could write.
//
// It owns ops.writers, ops.write_fences, their changes, reports, guards, holds and
// evidence, ops.write_intents, ops.shadow_frames, ops.compatibility_log and
// ops.writer_paths. The tables enforce the fence by themselves (migrations 010 to 014):
// this package asks the questions in the right order and says what comes next. Nothing
// below knows it: the ledger asks functions of the database that answer "the rail" while
// there is no fence, so that the whole can go in one commit.
//
// A fence is open, closing or sealed. A change goes
//
//	planned → shadowed → closing → drained → sealed → verified → advanced → completed → retired
//
// or ends aborted, and each step is one transaction, named by the change's id, that may
// be repeated: what is done already is read and returned. A process that dies between
// two of them leaves rows from which any other goes on, or which the watchdog of any
// daemon takes back at the closing's deadline. Who was too late is told by rows that
// did not match, never by a clock of its own.
//
// The database decides; a Controller only asks. It does not promise that a change ends
// advanced, nor that an old writer has been stopped: only that it can write nothing.
//
//	Controller  verbs: RegisterWriter, Configure, Guard, Unguard, Plan, Shadow, Close, Drain, Seal,
//	            Verify, Advance, Cross (Close to Advance), Abort, Rollback, Complete, Retire,
//	            RetireWriter, Remove, Release, CloseRestored, OpenRestored, Exercised, WatchPath
//	reads       Fences, FenceOf, FenceOfMatter, Changes, ChangeOf, Reports, Holds, Writers, Guards,
//	            Doctor, Blockers, Conditions, Cohort, Paths, Rights, Readings
//	work        Import, ImportIntent, Submit, Find, Compare, Watchdog, WatchAll, Canary
package authority
