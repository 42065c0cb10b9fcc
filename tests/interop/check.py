# SPDX-License-Identifier: Apache-2.0
"""What must hold in the log of an interop run (guard.h says what is in it).

Never two holders: the intervals do not overlap, unless both are readers, nobody met another inside, no count was lost.
Order of arrival: grants are in the order of their fences (create_revision, czxid; readers that hold at once among each other in any),
every fence is one that the server itself told of, and who came and was not granted was killed, lost its session, or gave
up. Where nobody stands in a line (args.ordered is false) only Rota's grants have a fence, and these grow. Elections: the observers saw leaders of both sides, with the values these had proclaimed, and never went back.
"""
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Grant:
    side: str
    group: int
    fence: int
    enter: int
    count: int
    value: str
    shared: bool = False
    leave: int | None = None


@dataclass
class Log:
    grants: list = field(default_factory=list)
    kills: list = field(default_factory=list)  # (side, group, begin, end)
    seen: dict = field(default_factory=dict)
    came: dict = field(default_factory=dict)  # revision: key
    went: int = 0
    met: list = field(default_factory=list)
    missed: list = field(default_factory=list)
    ended: list = field(default_factory=list)
    gave_up: int = 0


@dataclass
class Verdict:
    words: str = ""
    failures: list = field(default_factory=list)


def load(path):
    log, holding = Log(), {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        kind, *w = line.split(" ")
        if kind in ("E", "R"):
            value = w[5] if len(w) > 5 else ""
            grant = Grant(w[0], int(w[1]), int(w[2]), int(w[3]), int(w[4]), value, kind == "R")
            log.grants.append(grant)
            holding[grant.group, grant.fence] = grant
        elif kind == "L":
            holding[int(w[1]), int(w[2])].leave = int(w[3])
        elif kind == "X":
            log.kills.append((w[0], int(w[1]), int(w[2]), int(w[3])))
        elif kind == "O":
            log.seen.setdefault(w[0], []).append((int(w[1]), w[2] if len(w) > 2 else ""))
        elif kind == "P":
            log.came[int(w[0])] = w[1]
        elif kind == "D":
            log.went += 1
        elif kind == "G":
            log.gave_up += 1
        elif kind in "VMS":
            {"V": log.met, "M": log.missed, "S": log.ended}[kind].append(line)
    log.grants.sort(key=lambda g: g.enter)
    return log


def died(log, grant):
    """When its holder was dead; None: it was not killed. Numbers of groups come again: the first kill after it counts."""
    return min((end for _, group, _, end in log.kills if group == grant.group and end > grant.enter), default=None)


def check_one_holder(log, fail):
    for line in log.met:
        fail(f"two were inside: {line}")
    last = {True: None, False: None}  # of the readers, of the others: who is over last, and when
    before = None  # the last that counted
    for b in log.grants:
        over = b.leave if b.leave is not None else died(log, b)
        if over is None:
            fail(f"{b} never left, and was not killed")
            over = b.enter
        for a, a_over in filter(None, [last[False], None if b.shared else last[True]]):
            if b.enter < a_over:
                fail(f"overlap of {(a_over - b.enter) / 1e6:.3f} ms: {a} and {b}")
        if last[b.shared] is None or last[b.shared][1] < over:
            last[b.shared] = (b, over)
        if b.shared:
            continue
        if before and b.count != before.count + 1 and not (before.leave is None and b.count == before.count):
            fail(f"the count went from {before.count} to {b.count}: {before} and {b}")
        before = b


def check_order(log, fail):
    latest, writer = None, None  # the last to enter of those who came before; ... of the writers
    for b in sorted(log.grants, key=lambda g: g.fence):
        a = writer if b.shared else latest
        if a is not None and b.enter <= a.enter:
            fail(f"out of the order of arrival: {a} came before {b}")
        if latest is None or b.enter > latest.enter:
            latest = b
        if not b.shared and (writer is None or b.enter > writer.enter):
            writer = b
    fences = [g.fence for g in log.grants]
    if len(set(fences)) != len(fences):
        fail("two grants have one fence")
    for grant in log.grants:
        if grant.fence not in log.came:
            fail(f"nothing was created at the fence of {grant}")
    passed_over = len(set(log.came) - {g.fence for g in log.grants})
    excused = len(log.kills) + len(log.ended) + log.gave_up
    if passed_over > excused:
        fail(f"{passed_over} came and were not granted, of whom at most {excused} were killed, lost their session, gave up")
    if log.went != len(log.came):
        fail(f"{len(log.came)} came, {log.went} went")
    return passed_over


def check_fences(log, fail):
    """Of clients that only take turns: the numbers of ours grow; readers that hold at once have theirs in any order."""
    last = {True: 0, False: 0}  # the largest: of readers, of the others
    for grant in log.grants:
        if grant.side != "rota":
            continue
        before = last[False] if grant.shared else max(last.values())
        if grant.fence <= before:
            fail(f"the fence went back from {before}: {grant}")
        last[grant.shared] = max(last[grant.shared], grant.fence)


def check_observers(log, args, fail):
    values = {g.fence: (g.side, g.value) for g in log.grants}
    words = []
    for line in log.missed:
        fail(f"not seen within 10 s: {line}")
    for observer in {"rota", args.other if args.pair == "election" else "rota"} - set(log.seen):
        fail(f"{observer} observed nothing")
    for observer, seen in log.seen.items():
        revs = [rev for rev, _ in seen]
        if revs != sorted(revs):
            fail(f"the observer of {observer} went back")
        leaders = {"rota": set(), args.other: set()}
        for rev, value in seen:
            # A leader killed before it could write its line has said who it is in its value.
            side, said = values.get(rev, (value.split(":")[0], value.removesuffix("!")))
            if value.removesuffix("!") != said or side not in leaders:
                fail(f"the observer of {observer} saw {value!r} at {rev}, proclaimed was {said!r}")
                continue
            leaders[side].add(rev)
        for side, n in leaders.items():
            if len(n) < len(log.grants) // 100:
                fail(f"the observer of {observer} saw only {len(n)} leaders of {side}")
        words.append(f"{observer}'s observer saw {len(leaders['rota'])} leaders of rota, "
                     f"{len(leaders[args.other])} of {args.other}")
    again = sum(value.endswith("!") for seen in log.seen.values() for _, value in seen)
    return "; " + ", ".join(words) + f", {again} proclaimed anew"


def check(path, args):
    verdict, log = Verdict(), load(path)
    fail = verdict.failures.append
    check_one_holder(log, fail)
    passed_over = 0
    if getattr(args, "ordered", True):
        passed_over = check_order(log, fail)
    elif args.fenced:
        check_fences(log, fail)
    n = len(log.grants)
    by = {side: sum(g.side == side for g in log.grants) for side in ("rota", args.other)}
    least = 0.2 * (args.grants if getattr(args, "calm", False) else n)
    for side in by:
        if by[side] < least:
            fail(f"only {by[side]} of {n} grants to {side}")
    killed = {side: sum(k[0] == side for k in log.kills) for side in by}
    inside = {side: sum(g.leave is None and g.side == side for g in log.grants) for side in by}
    if min(inside.values()) < args.kills // 10:
        fail(f"too few were killed inside: {inside}")
    if n < args.grants or sum(killed.values()) < args.kills:
        fail("fewer grants or kills than asked for")
    other, readers = args.other, sum(g.shared for g in log.grants)
    verdict.words = (f"{n} grants (rota {by['rota']}, {args.pair} {by[other]}), killed rota {killed['rota']} "
                     f"({inside['rota']} inside), {args.pair} {killed[other]} ({inside[other]} inside), "
                     f"{passed_over} gone while waiting, {len(log.ended)} sessions lost, "
                     f"{len(log.met)} met another inside")
    if readers:
        verdict.words += f", {readers} were readers"
    if log.gave_up:
        verdict.words += f", {log.gave_up} gave up"
    if args.pair in ("election", "curator-latch"):
        verdict.words += check_observers(log, args, fail)
    return verdict
