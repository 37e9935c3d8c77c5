-------------------------------- MODULE Rail --------------------------------
(***************************************************************************)
(* The ledger of the rail: one matter's job row, the workers that race for *)
(* it, a source of demand, the sweep, and what may go wrong.  It is the    *)
(* model of internal/model/specs (rail*.go) with every defence on, state   *)
(* by state, for people who want TLC; README.md has the counts of both.    *)
(*                                                                         *)
(* Time is abstract: a queued row may be claimed at any moment, a lease of *)
(* a dead holder may run out at any moment, so nothing depends on how long *)
(* anything takes.  A fault spends one of a budget that is part of the     *)
(* state.                                                                  *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Workers,    \* a set of model values
    Faults,     \* the budget of faults
    Demands,    \* demands that may be made
    Attempts,   \* claims without a landing after which a failing job is parked
    Nobody, Dead \* as holder of the row: no claim, or that of a worker that crashed

VARIABLES
    row,        \* the job row
    worker,     \* what each worker is at
    frames,     \* generations that have a frame
    asked,      \* ghost: demands made
    covered,    \* ghost: demands contained in a landed frame
    extra,      \* ghost: demands since the last landing that each allow one more attempt
    tries,      \* ghost: claims since the last landing that were not handed back
    wrong,      \* ghost: violations that a state does not show afterwards
    met,        \* ghost: what the last step showed to be possible, see Meets
    faults,     \* left of the budget
    demands     \* left

vars == <<row, worker, frames, asked, covered, extra, tries, wrong, met, faults, demands>>

-----------------------------------------------------------------------------
(* The row.  requested, claimed and landed are generations.  prev is what  *)
(* claimed was before the live claim, which is what a rewind gives back.   *)

Row == [status    : {"none", "idle", "queued", "running", "parked"},
        requested : Nat, claimed : Nat, landed : Nat, prev : Nat,
        owed      : Nat,        \* demands_owed
        attempts  : Nat,
        holder    : Workers \cup {Nobody, Dead},  \* whose run run_id names
        flag      : BOOLEAN,    \* rebuild_needed
        expired   : BOOLEAN]    \* the lease has run out

NoRow == [status |-> "none", requested |-> 0, claimed |-> 0, landed |-> 0, prev |-> 0,
          owed |-> 0, attempts |-> 0, holder |-> Nobody, flag |-> FALSE, expired |-> FALSE]

(* Every way in which a claim ends. *)
Left(r, status) ==
    [r EXCEPT !.status = status, !.holder = Nobody, !.prev = 0, !.flag = FALSE, !.expired = FALSE]

(* Demand fails for no state of the row: a running one gets the flag, a    *)
(* parked one another attempt.                                             *)
Demanded(r) ==
    [r EXCEPT !.requested = @ + 1, !.owed = @ + 1,
              !.flag   = @ \/ r.status = "running",
              !.status = IF @ = "running" THEN @ ELSE "queued"]

(* A claim takes a number and hands it to its holder as the generation.    *)
Claimed(r, w) ==
    [r EXCEPT !.status = "running", !.requested = @ + 1, !.claimed = r.requested + 1,
              !.prev = r.claimed, !.attempts = @ + 1, !.holder = w,
              !.flag = FALSE, !.expired = FALSE]

(* The flag becomes the follow-up in the landing itself.                   *)
LandedAs(r, gen) ==
    Left([r EXCEPT !.landed = gen, !.attempts = 0, !.owed = r.requested - r.claimed],
         IF r.flag THEN "queued" ELSE "idle")

Failed(r, forGood) ==
    Left(r, IF ~r.flag /\ (forGood \/ r.attempts >= Attempts) THEN "parked" ELSE "queued")

Released(r) == Left([r EXCEPT !.attempts = @ - 1], "queued")

(* A failover to a replica that does not have the last claim.              *)
Rewound(r) ==
    Left([r EXCEPT !.requested = @ - 1, !.claimed = r.prev, !.attempts = @ - 1], "queued")

-----------------------------------------------------------------------------
(* The workers.  run is what a worker's own run row says: open, landed,    *)
(* lost (somebody else closed it), or gone (a rewind took it).             *)

Worker == [pc : {"idle", "building", "built", "unsure"},
           run : {"none", "open", "landed", "lost", "gone"}, gen : Nat, seen : Nat]

AtRest == [pc |-> "idle", run |-> "none", gen |-> 0, seen |-> 0]

(* The ledger takes a worker's write only under the live claim's token.    *)
Live(w) == row.status = "running" /\ row.holder = w

Ends(w) == worker' = [worker EXCEPT ![w] = AtRest]

(* A witness is noted only where the step leaves every worker idle: one is *)
(* enough, and so the states do not double.  Call it after worker'.        *)
Meets(what) == met' = IF \A w \in Workers : worker'[w].pc = "idle" THEN what ELSE {}

Nothing == met' = {}
Fault   == faults > 0 /\ faults' = faults - 1

RefusedAs(run) == CASE run = "lost" -> {"refused"} [] run = "gone" -> {"rewound"} [] OTHER -> {}

-----------------------------------------------------------------------------
(* Steps of a worker.                                                      *)

Claim(w) ==
    /\ worker[w].pc = "idle" /\ row.status = "queued"
    /\ row' = Claimed(row, w)
    /\ tries' = tries + 1
    /\ worker' = [worker EXCEPT ![w] = [pc |-> "building", run |-> "open", gen |-> row'.claimed, seen |-> asked]]
    /\ wrong' = IF covered = asked THEN wrong \cup {"needless"} ELSE wrong
    /\ Nothing
    /\ UNCHANGED <<frames, asked, covered, extra, faults, demands>>

Renew(w) ==
    /\ worker[w].pc = "building" /\ Live(w)
    /\ row' = [row EXCEPT !.expired = FALSE]
    /\ Nothing
    /\ UNCHANGED <<worker, frames, asked, covered, extra, tries, wrong, faults, demands>>

(* A build that is no longer wanted is cancelled. *)
RenewFenced(w) ==
    /\ worker[w].pc = "building" /\ ~Live(w)
    /\ Ends(w) /\ Nothing
    /\ UNCHANGED <<row, frames, asked, covered, extra, tries, wrong, faults, demands>>

Build(w) ==
    /\ worker[w].pc = "building"
    /\ worker' = [worker EXCEPT ![w].pc = "built"]
    /\ Nothing
    /\ UNCHANGED <<row, frames, asked, covered, extra, tries, wrong, faults, demands>>

(* The landing's one transaction: the frame comes in with it.              *)
Landing(w) ==
    LET gen == worker[w].gen IN
    /\ row' = LandedAs(row, gen)
    /\ frames' = frames \cup {gen}
    /\ covered' = IF worker[w].seen > covered THEN worker[w].seen ELSE covered
    /\ extra' = 0 /\ tries' = 0
    /\ wrong' = wrong
         \cup (IF row.holder # w THEN {"usurped"} ELSE {})
         \cup (IF ~Live(w) THEN {"stale"} ELSE {})
         \cup (IF gen \in frames THEN {"twice"} ELSE {})
         \cup (IF gen < row.landed \/ \E f \in frames : f > gen THEN {"back"} ELSE {})

(* What a landing shows to be possible.  Every claim takes a number, so    *)
(* more numbers than demands and attempts were handed out only where an    *)
(* attempt was handed back.                                                *)
Witnessed ==
    (IF row.flag THEN {"followup"} ELSE {})
    \cup (IF row.expired THEN {"lapsed"} ELSE {})
    \cup (IF row.landed = 0 /\ row.requested > asked + row.attempts THEN {"released"} ELSE {})

Land(w) ==
    /\ worker[w].pc = "built" /\ Live(w)
    /\ Landing(w) /\ Ends(w) /\ Meets(Witnessed)
    /\ UNCHANGED <<asked, faults, demands>>

(* It lands and the answer is lost. *)
LandUnheard(w) ==
    /\ worker[w].pc = "built" /\ Live(w) /\ Fault
    /\ Landing(w) /\ Nothing
    /\ worker' = [worker EXCEPT ![w].pc = "unsure", ![w].run = "landed"]
    /\ UNCHANGED <<asked, demands>>

LandFenced(w) ==
    /\ worker[w].pc = "built" /\ ~Live(w)
    /\ Ends(w) /\ Meets(RefusedAs(worker[w].run))
    /\ UNCHANGED <<row, frames, asked, covered, extra, tries, wrong, faults, demands>>

(* Cut off before its commit; the worker cannot tell. *)
LandCut(w) ==
    /\ worker[w].pc = "built" /\ Fault
    /\ worker' = [worker EXCEPT ![w].pc = "unsure"]
    /\ Nothing
    /\ UNCHANGED <<row, frames, asked, covered, extra, tries, wrong, demands>>

(* The run's row says what became of the landing. *)
Settle(w) ==
    /\ worker[w].pc = "unsure"
    /\ CASE worker[w].run = "open"   -> worker' = [worker EXCEPT ![w].pc = "built"] /\ Nothing
         [] worker[w].run = "landed" -> Ends(w) /\ Meets({"settled"})
         [] OTHER                    -> Ends(w) /\ Meets(RefusedAs(worker[w].run))
    /\ UNCHANGED <<row, frames, asked, covered, extra, tries, wrong, faults, demands>>

(* A claim that is given up; the write is refused where it is not live.    *)
GiveUp(w, to, handedBack) ==
    /\ Fault
    /\ row' = IF Live(w) THEN to ELSE row
    /\ tries' = IF Live(w) THEN tries - handedBack ELSE tries
    /\ Ends(w) /\ Nothing
    /\ UNCHANGED <<frames, asked, covered, extra, wrong, demands>>

Fail(w, forGood) == worker[w].pc \in {"building", "built"} /\ GiveUp(w, Failed(row, forGood), 0)

Release(w) == worker[w].pc # "idle" /\ GiveUp(w, Released(row), 1)

Crash(w) ==
    /\ worker[w].pc # "idle" /\ Fault
    /\ row' = IF row.holder = w THEN [row EXCEPT !.holder = Dead] ELSE row
    /\ Ends(w) /\ Nothing
    /\ UNCHANGED <<frames, asked, covered, extra, tries, wrong, demands>>

-----------------------------------------------------------------------------
(* Steps of the world.                                                     *)

Demand ==
    /\ demands > 0 /\ demands' = demands - 1
    /\ row' = Demanded(row)
    /\ asked' = asked + 1
    /\ extra' = IF row.status = "parked" \/ (row.status = "running" /\ ~row.flag) THEN extra + 1 ELSE extra
    /\ UNCHANGED worker
    /\ Meets(IF row.status = "parked" THEN {"revived"} ELSE {})
    /\ UNCHANGED <<frames, covered, tries, wrong, faults>>

(* The holder itself, if it is alive, goes on as a zombie. *)
Sweep ==
    /\ row.status = "running" /\ row.expired
    /\ row' = Failed(row, FALSE)
    /\ worker' = IF row.holder \in Workers THEN [worker EXCEPT ![row.holder].run = "lost"] ELSE worker
    /\ Nothing
    /\ UNCHANGED <<frames, asked, covered, extra, tries, wrong, faults, demands>>

(* Free for a dead holder; a living one renews, unless it pauses. *)
Lapse ==
    /\ row.status = "running" /\ ~row.expired
    /\ IF row.holder = Dead THEN UNCHANGED faults ELSE Fault
    /\ row' = [row EXCEPT !.expired = TRUE]
    /\ Nothing
    /\ UNCHANGED <<worker, frames, asked, covered, extra, tries, wrong, demands>>

(* A failover loses the last claim and nothing else. *)
Rewind ==
    /\ row.status = "running" /\ row.holder \in Workers
    /\ row.requested = row.claimed
    /\ worker[row.holder].run = "open" /\ worker[row.holder].pc \in {"building", "built"}
    /\ Fault
    /\ row' = Rewound(row)
    /\ tries' = tries - 1
    /\ worker' = [worker EXCEPT ![row.holder].run = "gone"]
    /\ Nothing
    /\ UNCHANGED <<frames, asked, covered, extra, wrong, demands>>

-----------------------------------------------------------------------------
Init ==
    /\ row = NoRow
    /\ worker = [w \in Workers |-> AtRest]
    /\ frames = {} /\ wrong = {} /\ met = {}
    /\ asked = 0 /\ covered = 0 /\ extra = 0 /\ tries = 0
    /\ faults = Faults /\ demands = Demands

Next ==
    \/ \E w \in Workers :
         \/ Claim(w)
         \/ Renew(w) \/ RenewFenced(w) \/ Build(w)
         \/ Land(w) \/ LandUnheard(w) \/ LandFenced(w) \/ LandCut(w)
         \/ Settle(w)
         \/ Fail(w, FALSE) \/ Fail(w, TRUE) \/ Release(w) \/ Crash(w)
    \/ Demand \/ Sweep \/ Lapse \/ Rewind

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must never be.                                                     *)

TypeOK ==
    /\ row \in Row /\ worker \in [Workers -> Worker]
    /\ frames \subseteq Nat /\ faults \in 0..Faults /\ demands \in 0..Demands

TwoFramesOfOneGeneration == "twice" \notin wrong
FrameOfAStaleClaim       == "stale" \notin wrong
LandedByAnothersToken    == "usurped" \notin wrong
LandedGoesBack           == "back" \notin wrong
BuildThatNobodyAskedFor  == "needless" \notin wrong
DemandIsForgotten        == ~(row.status \in {"none", "idle"} /\ covered < asked)
ParkedThoughNothingFailed == ~(row.status = "parked" /\ faults = Faults)
MoreAttemptsThanTheCap   == tries <= Attempts + extra

(* The named constraints of the row's table, and what it says is owed.     *)
RowSaysWhatIsOwed ==
    LET running == row.status = "running" IN
    /\ row.landed <= row.claimed /\ row.claimed <= row.requested
    /\ (row.status \in {"none", "idle"}) <=> (row.landed = row.requested)
    /\ row.flag <=> (running /\ row.claimed < row.requested)
    /\ running => row.claimed > row.landed
    /\ row.owed <= row.requested - row.landed
    /\ row.owed = asked - covered
    /\ running <=> row.holder # Nobody

(* What must be possible from every state.  TLC judges states and          *)
(* behaviours, and cannot say "from here some path leads there", so the Go *)
(* model alone judges that; see README.md for what TLC can say of it.      *)
Settled == row.status = "parked" \/ (row.status \in {"none", "idle"} /\ covered = asked)

(* With no fault left, and with everybody taking its steps, the row does   *)
(* get there: that is a property of behaviours, and TLC judges it.         *)
Fair ==
    /\ WF_vars(Sweep)
    /\ WF_vars(row.holder = Dead /\ Lapse)
    /\ \A w \in Workers : /\ WF_vars(Claim(w)) /\ WF_vars(Build(w)) /\ WF_vars(Settle(w))
                          /\ WF_vars(Land(w)) /\ WF_vars(LandFenced(w)) /\ WF_vars(RenewFenced(w))

FairSpec == Spec /\ Fair
Settles  == []<>Settled
=============================================================================
