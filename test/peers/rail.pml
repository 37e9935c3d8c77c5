/* The ledger of internal/model/specs with every defence on, for the checker SPIN: the
   same states and steps, so that counts and speed can be compared. N workers (at most
   4), F faults, D demands, A attempts after which a job is parked:

     spin -DN=2 -DF=2 -DD=2 -DA=2 -o2 -a rail.pml &&
     cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan -m1000000

   Each step is one d_step from the only place that a process has, so that no state lies
   between two of ours. (-o2 switches off what would drop variables that are written and
   never read. SPIN counts the initial state as one transition more.) */

#define NONE    0 /* status */
#define IDLE    1
#define QUEUED  2
#define RUNNING 3
#define PARKED  4

#define NOBODY  0 /* holder; worker i is i + 1 */
#define DEAD    255

#define BUILDING 1 /* pc; 0 is idle */
#define BUILT    2
#define UNSURE   4

#define OPEN    1 /* runs, what the run's row says; 0 is none */
#define LANDED  2
#define LOST    3
#define GONE    4

#define TWICE    1 /* wrong */
#define STALE    2
#define USURPED  4
#define BACK     8
#define NEEDLESS 16

#define FOLLOWUP 1 /* met */
#define REFUSED  2
#define SETTLED  4
#define LAPSED   8
#define REVIVED  16
#define RELEASED 32
#define REWOUND  64

/* the row */
byte status, requested, claimed, landed, prev, owed, attempts, holder;
bit flag, expired;

/* the workers */
byte pc[4], runs[4], gen[4], seen[4];

/* frames, a bit for each generation, and the ghosts: what only the properties need */
int frames;
byte asked, covered, extra, tries, wrong, met;

/* what is left */
byte faults = F, demands = D;

#define me    _pid
#define live  (status == RUNNING && holder == me + 1)
#define calm  (pc[0] + pc[1] + pc[2] + pc[3] == 0)
#define alive (holder != NOBODY && holder != DEAD)
#define who   (holder - 1)
#define sound (landed <= claimed && claimed <= requested && \
               ((status <= IDLE) == (landed == requested)) && \
               (flag == (status == RUNNING && claimed < requested)) && \
               (status != RUNNING || claimed > landed) && \
               owed <= requested - landed && \
               ((status == RUNNING) == (holder != NOBODY)))
#define bad   (wrong || !sound || owed != asked - covered || \
               (status <= IDLE && covered < asked) || \
               (status == PARKED && faults == F) || \
               tries > A + extra)

/* every way in which a claim ends */
inline leave(to) { status = to; holder = NOBODY; prev = 0; flag = 0; expired = 0 }

/* every way in which a worker stops */
inline ends() { pc[me] = 0; runs[me] = 0; gen[me] = 0; seen[me] = 0 }

/* a witness, noted only where it leaves every worker idle */
inline meets(what) { if :: calm -> met = what :: else fi }

inline failed(hopeless) {
  if
  :: !flag && (hopeless || attempts >= A) -> leave(PARKED)
  :: else -> leave(QUEUED)
  fi
}

/* leaves in what what the landing shows to be possible */
hidden byte what;
inline lands() {
  what = (flag -> FOLLOWUP : 0) | (expired -> LAPSED : 0) |
         (landed == 0 && requested > asked + attempts -> RELEASED : 0);
  if :: holder != me + 1 -> wrong = wrong | USURPED :: else fi;
  if :: gen[me] < landed -> wrong = wrong | BACK :: else fi;
  if :: frames & (1 << gen[me]) -> wrong = wrong | TWICE :: else fi;
  if :: frames >> (gen[me] + 1) -> wrong = wrong | BACK :: else fi;
  if :: !live -> wrong = wrong | STALE :: else fi;
  frames = frames | (1 << gen[me]);
  landed = gen[me]; attempts = 0; owed = requested - claimed;
  if :: flag -> leave(QUEUED) :: else -> leave(IDLE) fi;
  if :: seen[me] > covered -> covered = seen[me] :: else fi;
  extra = 0; tries = 0
}

active [N] proctype worker() {
end: do
  :: d_step { pc[me] == 0 && status == QUEUED -> /* claims */
       met = 0; prev = claimed; requested++; claimed = requested; attempts++; tries++;
       status = RUNNING; holder = me + 1; flag = 0; expired = 0;
       pc[me] = BUILDING; runs[me] = OPEN; gen[me] = claimed; seen[me] = asked;
       if :: covered == asked -> wrong = wrong | NEEDLESS :: else fi }

  :: d_step { pc[me] == BUILDING && live -> met = 0; expired = 0 } /* renews */
  :: d_step { pc[me] == BUILDING && !live -> met = 0; ends() }     /* renewal fenced */
  :: d_step { pc[me] == BUILDING -> met = 0; pc[me] = BUILT }      /* builds */

  :: d_step { pc[me] == BUILT && live -> met = 0; lands(); ends(); meets(what) }
  :: d_step { pc[me] == BUILT && live && faults > 0 -> /* lands, the answer is lost */
       met = 0; lands(); faults--; pc[me] = UNSURE; runs[me] = LANDED }
  :: d_step { pc[me] == BUILT && !live -> /* landing fenced */
       met = 0; what = (runs[me] == LOST -> REFUSED : (runs[me] == GONE -> REWOUND : 0));
       ends(); meets(what) }
  :: d_step { pc[me] == BUILT && faults > 0 -> met = 0; faults--; pc[me] = UNSURE } /* cut off before the commit */

  :: d_step { pc[me] == UNSURE && runs[me] == OPEN -> met = 0; pc[me] = BUILT } /* settles */
  :: d_step { pc[me] == UNSURE && runs[me] == LANDED -> met = 0; ends(); meets(SETTLED) }
  :: d_step { pc[me] == UNSURE && runs[me] >= LOST ->
       met = 0; what = (runs[me] == LOST -> REFUSED : REWOUND);
       ends(); meets(what) }

  /* faults: the attempt fails, or for good; the claim is released; each is refused where
     the claim is not the live one; a crash */
  :: d_step { (pc[me] == BUILDING || pc[me] == BUILT) && faults > 0 ->
       met = 0; faults--; if :: live -> failed(0) :: else fi; ends() }
  :: d_step { (pc[me] == BUILDING || pc[me] == BUILT) && faults > 0 ->
       met = 0; faults--; if :: live -> failed(1) :: else fi; ends() }
  :: d_step { pc[me] != 0 && faults > 0 ->
       met = 0; faults--; if :: live -> tries--; attempts--; leave(QUEUED) :: else fi; ends() }
  :: d_step { pc[me] != 0 && faults > 0 ->
       met = 0; faults--; if :: holder == me + 1 -> holder = DEAD :: else fi; ends() }
  od
}

active proctype world() {
end: do
  :: d_step { demands > 0 ->
       met = 0; demands--;
       if :: status == PARKED || (status == RUNNING && !flag) -> extra++ :: else fi;
       if :: status == PARKED -> meets(REVIVED) :: else fi;
       requested++; owed++; asked++;
       if :: status == RUNNING -> flag = 1 :: else -> status = QUEUED fi }

  :: d_step { status == RUNNING && expired -> /* sweeps */
       met = 0; if :: alive -> runs[who] = LOST :: else fi; failed(0) }
  :: d_step { status == RUNNING && !expired && !alive -> met = 0; expired = 1 }                     /* lapses */
  :: d_step { status == RUNNING && !expired && alive && faults > 0 -> met = 0; faults--; expired = 1 } /* pauses */
  :: d_step { status == RUNNING && alive && faults > 0 && requested == claimed &&
              runs[who] == OPEN && pc[who] <= BUILT -> /* a failover loses the claim */
       met = 0; faults--; runs[who] = GONE;
       requested--; claimed = prev; tries--; attempts--; leave(QUEUED) }

  :: d_step { bad -> assert(false) }
  od
}
