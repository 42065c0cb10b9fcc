#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/scale.md, in Markdown, from what `make bench BENCH="--json scale"` prints.

    make bench BENCH="--json scale" >figures        all engines; BENCH="--json scale-redis" for one
    scripts/scale-table.py figures
    scripts/scale-table.py figures docs/scale.md    puts them there, below the mark
"""
import contextlib
import io
import json
import re
import sys

NAMES = {"file": "file", "redis": "Redis", "postgres": "PostgreSQL", "mysql": "MariaDB", "etcd": "etcd", "zookeeper": "ZooKeeper"}
LOST = "refused or lost"
MARK = "<!-- below: scripts/scale-table.py -->\n"


def read(lines):
    """{engine: {(table, size, text): value}}; what has no size has 0."""
    figures = {}
    for line in lines:
        match = re.search(r'\{"what":"(\w+): (\w+):? ?(\d*)(?: clients)?:? ?(.*?)","value":([^,]+)', line)
        if match:
            engine, table, size, text, value = match.groups()
            if engine in NAMES:
                figures.setdefault(engine, {})[table, int(size or 0), text] = float(value)
    return figures


def number(value):
    if value is None:
        return "-"
    return "{:,.0f}".format(value) if value >= 100 or value == int(value) else "%.2g" % value


def cell(of, table, size, texts):
    """What is known of TEXTS at SIZE, and in bold what was refused or lost there."""
    known = [of.get((table, size, text)) for text in texts]
    lost = of.get((table, size, LOST), 0)
    shown = " / ".join(number(k) for k in known) if any(k is not None for k in known) else ""
    return (shown + (" **%s lost**" % number(lost) if lost else "")).strip() or "-"


def sizes_of(figures, table):
    return sorted({size for of in figures.values() for t, size, text in of if t == table and text == LOST})


def show(title, text, head, rows):
    """One table, with what its cells mean; none if there is nothing to show."""
    if not rows:
        return
    print("### %s\n\n%s\n" % (title, text))
    print("| engine | %s |\n|%s" % (" | ".join(head), "---|" * (len(head) + 1)))
    for engine, cells in rows:
        print("| %s | %s |" % (NAMES[engine], " | ".join(cells)))
    print()


def last(of, table, text):
    """TEXT at the largest size at which it was measured and nothing was refused or lost."""
    sizes = [size for t, size, x in of if t == table and x == text and not of.get((table, size, LOST))]
    return of[table, max(sizes), text] if sizes else None


def show_all(figures):
    engines = [e for e in NAMES if e in figures]
    if not engines:
        sys.exit('scale-table.py: no figures: give it the output of make bench BENCH="--json scale"')

    sizes = sizes_of(figures, "locks")
    taken, given, bare = "asked for at once, all granted", "all released", "the same by hand on the bare server"
    each, memory = "our processor for each", "our memory for each"
    show("Locks of one client", "Asked for at once: seconds until all are granted / until all are released. The last four columns are of the "
         "largest size at which nothing was refused or lost.",
         ["{:,}".format(n) for n in sizes] + ["bare, s", "at rest: client / server, %", "us of ours each", "bytes each"],
         [(e, [cell(figures[e], "locks", n, [taken, given]) for n in sizes] +
           [number(last(figures[e], "locks", bare)),
            number(last(figures[e], "locks", "at rest, our processor")) + " / " + number(last(figures[e], "locks", "at rest, the server's")),
            number(last(figures[e], "locks", each)), number(last(figures[e], "locks", memory))]) for e in engines])

    sizes = sizes_of(figures, "clients")
    pairs, row = "all want one lock, pairs", "the same by hand on one row"
    texts = ["at rest, the server's", pairs, "... the client with the fewest", "... the client with the most"]
    show("Clients", "Each with a lock of its own: the server's processor at rest in % / then all want one lock: pairs a second / grants "
         "of the client with the fewest / with the most, in 5 s.",
         ["{:,}".format(n) for n in sizes] + ["bare hot row, 10 / 100 clients"],
         [(e, [cell(figures[e], "clients", n, texts) for n in sizes] +
           [number(figures[e].get(("clients", 10, row))) + " / " + number(figures[e].get(("clients", 100, row)))]) for e in engines])

    sizes = sizes_of(figures, "line")
    texts = ["until all stand", "while all wait, the server's", "hand-over, median", "hand-over, 99 of 100"]
    show("Waiters in one line", "Of 50 clients: ms until all stand / the server's processor while they wait in % / hand-over in us: "
         "median / 99 of 100.",
         ["{:,}".format(n) for n in sizes],
         [(e, [cell(figures[e], "line", n, texts) for n in sizes]) for e in engines])

    before, after, rate = "a pair on a fresh name, before", "a pair on a fresh name, after", "used once each"
    sizes = sorted({size for of in figures.values() for t, size, _ in of if t == "names" and size})
    show("Names used once", "Names a second / a pair on a fresh name afterwards, to one before. The last column is after all of the above.",
         ["{:,}".format(n) for n in sizes] + ["keys, rows or nodes that stay"],
         [(e, [number(figures[e].get(("names", n, rate))) + " / x%.2f" % (figures[e]["names", n, after] / figures[e]["names", n, before])
               if ("names", n, after) in figures[e] else "-" for n in sizes] +
           [number(figures[e].get(("names", 0, "keys, rows or nodes that stay")))]) for e in engines])

    rows = []
    for e in engines:
        out = {text: (size, value) for (t, size, text), value in figures[e].items() if t == "outage"}
        lost = [(text, value) for text, (_, value) in out.items() if text.startswith("lost of")]
        if lost:
            rows.append((e, [number(out["the server was down for"][1]), number(lost[0][1]) + " of " + number(float(lost[0][0].split()[-1])),
                             number(out["warnings"][1])]))
    show("An outage of half the ttl", "The server is killed, and started again after 5 s of a ttl of 10 s.",
         ["down, s", "locks lost", "warnings"], rows)

    first, at_last, again = "decisions, at first", "decisions, at last", "journal opened again"
    size = max((s for of in figures.values() for t, s, _ in of if t == "transactions"), default=0)
    show("Finished transactions", "{:,} of two branches in a journal, 64 at once.".format(size),
         ["decisions a second, at first", "at last", "ms to open it again", "bytes"],
         [(e, [number(figures[e].get(("transactions", size, text))) for text in (first, at_last, again)] +
           [number(figures[e].get(("transactions", 0, "journal")))]) for e in engines if ("transactions", size, first) in figures[e]])


def main():
    with (open(sys.argv[1], encoding="utf-8") if len(sys.argv) > 1 else sys.stdin) as lines:
        figures = read(lines)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show_all(figures)
    if len(sys.argv) < 3:
        print(out.getvalue(), end="")
        return
    with open(sys.argv[2], "r+", encoding="utf-8") as page:
        text = page.read().partition(MARK)[0]
        page.seek(0)
        page.write(text + MARK + "\n" + out.getvalue().rstrip() + "\n")
        page.truncate()


main()
