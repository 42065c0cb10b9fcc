# SPDX-License-Identifier: Apache-2.0
"""What must hold in the log of an interop run (guard.h says what is in it).

Never two holders: the intervals do not overlap, nobody met another inside, no count was lost. Order of arrival: grants
are in the order of create_revision, every fence is the create_revision that the server itself told of, and who came
and was not granted was killed or lost its session. Elections: both observers saw leaders of both sides, with the
values these had proclaimed, and never went back.
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
    leave: int | None = None


@dataclass
class Log:
    grants: list = field(default_factory=list)
    kills: list = field(default_factory=list)  # (side, group, begin, end)
    seen: dict = field(default_factory=lambda: {"go": [], "rota": []})
    came: dict = field(default_factory=dict)  # revision: key
    went: int = 0
    met: list = field(default_factory=list)
    missed: list = field(default_factory=list)
    ended: list = field(default_factory=list)


@dataclass
class Verdict:
    words: str = ""
    failures: list = field(default_factory=list)


def load(path):
    log, holding = Log(), {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        kind, *w = line.split(" ")
        if kind == "E":
            grant = Grant(w[0], int(w[1]), int(w[2]), int(w[3]), int(w[4]), w[5] if len(w) > 5 else "")
            log.grants.append(grant)
            holding[grant.group, grant.fence] = grant
        elif kind == "L":
            holding[int(w[1]), int(w[2])].leave = int(w[3])
        elif kind == "X":
            log.kills.append((w[0], int(w[1]), int(w[2]), int(w[3])))
        elif kind == "O":
            log.seen[w[0]].append((int(w[1]), w[2] if len(w) > 2 else ""))
        elif kind == "P":
            log.came[int(w[0])] = w[1]
        elif kind == "D":
            log.went += 1
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
    for a, b in zip(log.grants, log.grants[1:] + [None]):
        over = a.leave if a.leave is not None else died(log, a)
        if over is None:
            fail(f"{a} never left, and was not killed")
        if over is None or b is None:
            continue
        if b.enter < over:
            fail(f"overlap of {(over - b.enter) / 1e6:.3f} ms: {a} and {b}")
        if b.count != a.count + 1 and not (a.leave is None and b.count == a.count):
            fail(f"the count went from {a.count} to {b.count}: {a} and {b}")


def check_order(log, fail):
    for a, b in zip(log.grants, log.grants[1:]):
        if b.fence <= a.fence:
            fail(f"out of the order of arrival: {a} before {b}")
    for grant in log.grants:
        if grant.fence not in log.came:
            fail(f"no key was created at the fence of {grant}")
    passed_over = len(set(log.came) - {g.fence for g in log.grants})
    excused = len(log.kills) + len(log.ended)
    if passed_over > excused:
        fail(f"{passed_over} came and were not granted, of whom at most {excused} were killed or lost their session")
    if log.went != len(log.came):
        fail(f"{len(log.came)} keys came, {log.went} went")
    return passed_over


def check_observers(log, fail):
    values = {g.fence: (g.side, g.value) for g in log.grants}
    words = []
    for line in log.missed:
        fail(f"not seen within 10 s: {line}")
    for observer, seen in log.seen.items():
        revs = [rev for rev, _ in seen]
        if revs != sorted(revs):
            fail(f"the observer of {observer} went back")
        leaders = {"go": set(), "rota": set()}
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
        words.append(f"{observer}'s observer saw {len(leaders['rota'])} leaders of rota, {len(leaders['go'])} of go")
    again = sum(value.endswith("!") for seen in log.seen.values() for _, value in seen)
    return "; " + ", ".join(words) + f", {again} proclaimed anew"


def check(path, args):
    verdict, log = Verdict(), load(path)
    fail = verdict.failures.append
    check_one_holder(log, fail)
    passed_over = check_order(log, fail)
    n = len(log.grants)
    by = {side: sum(g.side == side for g in log.grants) for side in ("rota", "go")}
    for side in by:
        if by[side] < 0.2 * n:
            fail(f"only {by[side]} of {n} grants to {side}")
    killed = {side: sum(k[0] == side for k in log.kills) for side in by}
    inside = {side: sum(g.leave is None and g.side == side for g in log.grants) for side in by}
    if min(inside.values()) < args.kills // 10:
        fail(f"too few were killed inside: {inside}")
    if n < args.grants or sum(killed.values()) < args.kills:
        fail("fewer grants or kills than asked for")
    verdict.words = (f"{n} grants (rota {by['rota']}, {args.pair} {by['go']}), killed rota {killed['rota']} "
                     f"({inside['rota']} inside), {args.pair} {killed['go']} ({inside['go']} inside), "
                     f"{passed_over} gone while waiting, {len(log.ended)} sessions lost, "
                     f"{len(log.met)} met another inside")
    if args.pair == "election":
        verdict.words += check_observers(log, fail)
    return verdict
