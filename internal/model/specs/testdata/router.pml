/* The router with idem, lease and fence, for the checker SPIN: the same states and
   steps, so that counts and speed can be compared. N invocations (at most 6), B faults:

     spin -DN=4 -DB=3 -o2 -a router.pml && cc -O2 -DSAFETY -DNOREDUCE -o pan pan.c && ./pan

   (-o2 switches off what would drop variables that are written and never read; SPIN
   counts the initial state as one transition more.)
   pc: 0 idle, 1 done, 2 claimed, 3 sent, 4 failed. status: 0 absent, 1 PENDING,
   2 ROUTING, 3 ROUTED. */
byte status, epoch, l2, left = B;
bit expired, routed;
byte pc[6], claim[6];

#define free     (status <= 1 || (status == 2 && expired))
#define rejected (claim[me] != epoch)
#define ends     pc[me] = 1; claim[me] = 0
#define holds(i) (pc[i] >= 2 && claim[i] == epoch)
#define held     (holds(0) || holds(1) || holds(2) || holds(3) || holds(4) || holds(5))

#define me (_pid)

active [N] proctype invocation() {
  do
  :: d_step { pc[me] == 1 -> pc[me] = 0 }
  :: d_step { pc[me] == 0 && free -> epoch++; status = 2; expired = 0; pc[me] = 2; claim[me] = epoch }
  :: d_step { pc[me] == 0 && !free -> ends }
  :: d_step { pc[me] == 2 -> l2 = 1; pc[me] = 3 }
  :: d_step { pc[me] == 2 && left > 0 -> left--; pc[me] = 4 }
  :: d_step { pc[me] == 2 && left > 0 -> left--; l2 = 1; pc[me] = 4 }
  :: d_step { pc[me] == 3 && rejected -> ends }
  :: d_step { pc[me] == 3 && !rejected -> status = 3; expired = 0; routed = 1; ends }
  :: d_step { pc[me] == 3 && !rejected && left > 0 -> left--; pc[me] = 4 }
  :: d_step { pc[me] == 4 && rejected -> ends }
  :: d_step { pc[me] == 4 && !rejected -> status = 1; expired = 0; ends }
  :: d_step { pc[me] >= 2 && left > 0 -> left--; ends }
  od
}

active proctype lease() {
  do
  :: d_step { status == 2 && !expired && !held -> expired = 1 }
  :: d_step { status == 2 && !expired && held && left > 0 -> left--; expired = 1 }
  :: d_step { l2 > 1 || (routed && status != 3) -> assert(false) }
  od
}
