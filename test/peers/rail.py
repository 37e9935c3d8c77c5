"""The ledger of internal/model/specs with every defence on, searched breadth first in
plain Python.

python3 rail.py WORKERS FAULTS [DEMANDS [ATTEMPTS]] prints states and transitions. It is
written as one writes such a search by hand, for figures to compare with: states are
tuples, those seen lie in a set, those to expand in a deque.
"""

import sys
from collections import deque

NONE, IDLE, QUEUED, RUNNING, PARKED = "none", "idle", "queued", "running", "parked"
NOBODY, DEAD = "nobody", "dead"  # as holder of the row; a worker is its number

# A row is (status, requested, claimed, landed, prev, owed, attempts, holder, flag, expired),
# a worker (pc, run, gen, seen).
NO_ROW = (NONE, 0, 0, 0, 0, 0, 0, NOBODY, False, False)
AT_REST = ("idle", None, 0, 0)


def left(row, status, **changed):
    """The row after its claim has ended."""
    _, requested, claimed, landed, _, owed, attempts, _, _, _ = row
    return (status, changed.get("requested", requested), changed.get("claimed", claimed), changed.get("landed", landed), 0,
            changed.get("owed", owed), changed.get("attempts", attempts), NOBODY, False, False)


def failed(row, cap, for_good=False):
    attempts, flag = row[6], row[8]
    return left(row, PARKED if not flag and (for_good or attempts >= cap) else QUEUED)


def released(row):
    return left(row, QUEUED, attempts=row[6] - 1)


def rewound(row):
    return left(row, QUEUED, requested=row[1] - 1, claimed=row[4], attempts=row[6] - 1)


def landed_as(row, gen):
    return left(row, QUEUED if row[8] else IDLE, landed=gen, owed=row[1] - row[2], attempts=0)


def claimed_by(row, holder):
    _, requested, claimed, landed, _, owed, attempts, _, _, _ = row
    return (RUNNING, requested + 1, requested + 1, landed, claimed, owed, attempts + 1, holder, False, False)


def demanded(row):
    status, requested, claimed, landed, prev, owed, attempts, holder, flag, expired = row
    if status == RUNNING:
        flag = True
    else:
        status = QUEUED
    return (status, requested + 1, claimed, landed, prev, owed + 1, attempts, holder, flag, expired)


def with_expired(row, expired):
    return row[:9] + (expired,)


def replaced(workers, i, worker):
    return workers[:i] + (worker,) + workers[i + 1:]


def refused_as(run):
    return {"lost": "refused", "gone": "rewound"}.get(run)


def steps(state, cap):
    row, workers, frames, asked, covered, extra, tries, wrong, _, faults, demands = state
    status, requested, claimed, landed, _, _, attempts, holder, flag, expired = row

    def to(row=row, workers=workers, frames=frames, asked=asked, covered=covered, extra=extra, tries=tries,
           wrong=wrong, met=None, faults=faults, demands=demands):
        if met is not None and any(w[0] != "idle" for w in workers):
            met = None  # a witness is noted only where it leaves every worker idle
        return (row, workers, frames, asked, covered, extra, tries, wrong, met, faults, demands)

    def landing(i, gen, seen):
        """What a landing changes."""
        now = set(wrong)
        if holder != i:
            now |= {"usurped", "stale"}
        if gen < landed or any(f > gen for f in frames):
            now.add("back")
        if gen in frames:
            now.add("twice")
        return dict(row=landed_as(row, gen), frames=frames | {gen}, covered=max(covered, seen), extra=0, tries=0,
                    wrong=frozenset(now))

    def witnessed():
        """What a landing shows to be possible."""
        return (flag, expired, landed == 0 and requested > asked + attempts) if (
            flag or expired or landed == 0 and requested > asked + attempts) else None

    for i, (pc, run, gen, seen) in enumerate(workers):
        if pc == "idle":
            if status == QUEUED:
                taken = claimed_by(row, i)
                yield to(row=taken, tries=tries + 1, workers=replaced(workers, i, ("building", "open", taken[2], asked)),
                         wrong=wrong | {"needless"} if covered == asked else wrong)
            continue
        ended = replaced(workers, i, AT_REST)
        live = status == RUNNING and holder == i
        if pc == "building":
            if live:
                yield to(row=with_expired(row, False))
            else:
                yield to(workers=ended)
            yield to(workers=replaced(workers, i, ("built", run, gen, seen)))
        elif pc == "built":
            if live:
                changed = landing(i, gen, seen)
                yield to(workers=ended, met=witnessed(), **changed)
                if faults:
                    yield to(workers=replaced(workers, i, ("unsure", "landed", gen, seen)), faults=faults - 1, **changed)
            else:
                yield to(workers=ended, met=refused_as(run))
            if faults:
                yield to(workers=replaced(workers, i, ("unsure", run, gen, seen)), faults=faults - 1)
        elif run == "open":
            yield to(workers=replaced(workers, i, ("built", run, gen, seen)))
        elif run == "landed":
            yield to(workers=ended, met="settled")
        else:
            yield to(workers=ended, met=refused_as(run))
        if not faults:
            continue
        if pc != "unsure":
            yield to(row=failed(row, cap) if live else row, workers=ended, faults=faults - 1)
            yield to(row=failed(row, cap, for_good=True) if live else row, workers=ended, faults=faults - 1)
        yield to(row=released(row) if live else row, tries=tries - 1 if live else tries, workers=ended, faults=faults - 1)
        yield to(row=row[:7] + (DEAD,) + row[8:] if holder == i else row, workers=ended, faults=faults - 1)

    if demands:
        yield to(row=demanded(row), asked=asked + 1, demands=demands - 1, met="revived" if status == PARKED else None,
                 extra=extra + 1 if status == PARKED or status == RUNNING and not flag else extra)

    if status != RUNNING:
        return
    alive = holder not in (NOBODY, DEAD)
    if alive:
        pc, run, gen, seen = workers[holder]
    if expired:
        yield to(row=failed(row, cap), workers=replaced(workers, holder, (pc, "lost", gen, seen)) if alive else workers)
    elif not alive:
        yield to(row=with_expired(row, True))
    elif faults:
        yield to(row=with_expired(row, True), faults=faults - 1)
    if faults and alive and requested == claimed and run == "open" and pc in ("building", "built"):
        yield to(row=rewound(row), tries=tries - 1, workers=replaced(workers, holder, (pc, "gone", gen, seen)), faults=faults - 1)


def bad(state, budget, cap):
    """Names what the state breaks, None where it is sound."""
    row, _, _, asked, covered, extra, tries, wrong, _, faults, _ = state
    status, requested, claimed, landed, _, owed, _, holder, flag, _ = row
    running = status == RUNNING
    if wrong:
        return ", ".join(wrong)
    if status in (NONE, IDLE) and covered < asked:
        return "demand is forgotten"
    if status == PARKED and faults == budget:
        return "parked though nothing failed"
    if tries > cap + extra:
        return "more attempts than the cap allows"
    if (not landed <= claimed <= requested or (status in (NONE, IDLE)) != (landed == requested)
            or flag != (running and claimed < requested) or running and claimed <= landed
            or owed != asked - covered or owed > requested - landed or running != (holder != NOBODY)):
        return "the row misstates what is owed"
    return None


def search(workers, faults, demands=2, attempts=2):
    first = (NO_ROW, (AT_REST,) * workers, frozenset(), 0, 0, 0, 0, frozenset(), None, faults, demands)
    seen, queue, transitions = {first}, deque([first]), 0
    while queue:
        for state in steps(queue.popleft(), attempts):
            transitions += 1
            if state not in seen:
                broken = bad(state, faults, attempts)
                if broken:
                    sys.exit("broken: %s: %s" % (broken, state))
                seen.add(state)
                queue.append(state)
    return len(seen), transitions


if __name__ == "__main__":
    print(*search(*map(int, sys.argv[1:])))
