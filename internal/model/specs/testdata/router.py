"""The router with idem, lease and fence, searched breadth first in plain Python.

python3 router.py INVOCATIONS FAULTS prints states and transitions. It is written as
one writes such a search by hand, for a figure to compare with: tuples in a set.
"""

import sys
from collections import deque


def steps(state, invocations):
    status, epoch, expired, l2, routed, left, pcs, claims = state

    def to(i, pc, claim, status=status, epoch=epoch, expired=expired, l2=l2, routed=routed, left=left):
        return (status, epoch, expired, l2, routed, left,
                pcs[:i] + (pc,) + pcs[i + 1:], claims[:i] + (claim,) + claims[i + 1:])

    for i in range(invocations):
        pc, claim = pcs[i], claims[i]
        rejected = claim != epoch
        if pc == "done":
            yield to(i, "idle", claim)
            continue
        if pc == "idle":
            if status in ("absent", "PENDING") or (status == "ROUTING" and expired):
                yield to(i, "claimed", epoch + 1, status="ROUTING", epoch=epoch + 1, expired=False)
            else:
                yield to(i, "done", 0)
            continue
        if pc == "claimed":
            yield to(i, "sent", claim, l2=1)
            if left:
                yield to(i, "failed", claim, left=left - 1)
                yield to(i, "failed", claim, l2=1, left=left - 1)
        elif rejected:
            yield to(i, "done", 0)
        elif pc == "sent":
            yield to(i, "done", 0, status="ROUTED", expired=False, routed=True)
            if left:
                yield to(i, "failed", claim, left=left - 1)
        else:
            yield to(i, "done", 0, status="PENDING", expired=False)
        if left:
            yield to(i, "done", 0, left=left - 1)
    if status == "ROUTING" and not expired:
        held = any(pcs[i] in ("claimed", "sent", "failed") and claims[i] == epoch for i in range(invocations))
        if not held:
            yield (status, epoch, True, l2, routed, left, pcs, claims)
        elif left:
            yield (status, epoch, True, l2, routed, left - 1, pcs, claims)


def search(invocations, faults):
    first = ("absent", 0, False, 0, False, faults, ("idle",) * invocations, (0,) * invocations)
    seen, queue, transitions = {first}, deque([first]), 0
    while queue:
        for state in steps(queue.popleft(), invocations):
            transitions += 1
            if state not in seen:
                assert state[3] <= 1 and (not state[4] or state[0] == "ROUTED")
                seen.add(state)
                queue.append(state)
    return len(seen), transitions


if __name__ == "__main__":
    print(*search(int(sys.argv[1]), int(sys.argv[2])))
