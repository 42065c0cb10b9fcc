#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of interop runs must be silent about a legal log, and find every lie put into it."""
import tempfile
import types
import unittest

import check

N = 200
ARGS = types.SimpleNamespace(pair="election", other="go", grants=N, kills=2, fenced=True)
MS = 1000000


def side(i):
    return "rota" if i % 2 == 0 else "go"


def legal():
    """Grant i has fence 10 i + 10 and lasts from 10 i + 1 to 10 i + 8 ms; 50 is killed inside, 51 came and was killed
    while it waited."""
    log = ["W"]
    for i in range(N):
        fence, group, value = 10 * i + 10, 1000 + i % 4, f"{side(i)}:{i}"
        if i == 50:
            group = 2000
        log.append(f"P {fence} line/{i}")
        log.append(f"E {side(i)} {group} {fence} {(10 * i + 1) * MS} {i if i <= 50 else i - 1} {value}")
        log += [f"O go {fence} {value}", f"O rota {fence} {value}", f"O rota {fence} {value}!"]
        if i == 50:
            log += [f"X rota 2000 {506 * MS} {508 * MS}", "P 515 line/w", f"X go 2001 {506 * MS} {509 * MS}", "D 516 line/w"]
        else:
            log.append(f"L {side(i)} {group} {fence} {(10 * i + 8) * MS}")
        log.append(f"D {fence + 9} line/{i}")
    return log


class Checker(unittest.TestCase):
    def findings(self, log):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("\n".join(log) + "\n")
            f.flush()
            return check.check(f.name, ARGS).failures

    def finds(self, words, old, new):
        """OLD, which is in the log, replaced by NEW lines."""
        log = legal()
        at = log.index(old)
        found = self.findings(log[:at] + new + log[at + 1:])
        self.assertTrue(any(words in one for one in found), f"{words!r} not in {found[:3]}")

    def test_legal(self):
        self.assertEqual(self.findings(legal()), [])

    def test_two_holders(self):
        self.finds("overlap", f"L go 1001 20 {18 * MS}", [f"L go 1001 20 {22 * MS}"])
        self.finds("overlap", f"X rota 2000 {506 * MS} {508 * MS}", [f"X rota 2000 {506 * MS} {512 * MS}"])
        self.finds("two were inside", "W", ["W", "V go 1001 20 1000"])
        self.finds("the count went", f"E go 1001 20 {11 * MS} 1 go:1", [f"E go 1001 20 {11 * MS} 0 go:1"])

    def test_never_left(self):
        self.finds("never left", f"L go 1001 20 {18 * MS}", [])
        self.finds("never left", f"L go 1003 2000 {1998 * MS}", [])
        self.finds("never left", f"X rota 2000 {506 * MS} {508 * MS}", [])

    def test_order(self):
        self.finds("out of the order", f"E go 1001 20 {11 * MS} 1 go:1", [f"E go 1001 20 {35 * MS} 1 go:1"])
        self.finds("nothing was created", "P 20 line/1", ["P 21 line/1"])
        self.finds("came and were not granted", "W", ["W"] + [f"P {i} x" for i in range(3)])
        self.finds("went", "D 19 line/0", [])

    def test_readers(self):
        """Two that hold at once: legal only if both read; a writer behind them waits for both."""
        first, second = f"E rota 1000 10 {1 * MS} 0 rota:0", f"E go 1001 20 {11 * MS} 1 go:1"
        two = [x.replace("E ", "R ", 1) for x in (first, second.replace(f"{11 * MS} 1", f"{5 * MS} 0"))]
        log = legal()
        log[log.index(first)], log[log.index(second)] = two
        found = self.findings(log)
        self.assertFalse(any("overlap" in one or "order" in one for one in found), found)
        log[log.index(two[1])] = two[1].replace("R ", "E ", 1)
        self.assertTrue(any("overlap" in one for one in self.findings(log)))
        self.finds("out of the order", first, [first.replace("E ", "R ", 1).replace(f"{1 * MS} 0", f"{25 * MS} 0")])

    def test_fences_without_a_line(self):
        """Only ours are numbered; readers that hold at once have their numbers in any order."""
        def grants(*kinds):
            log = check.Log()
            for at, (shared, fence) in enumerate(kinds):
                log.grants.append(check.Grant("rota", 1, fence, at, at, "", shared))
            log.grants.append(check.Grant("go", 2, 1, len(kinds), 0, ""))
            found = []
            check.check_fences(log, found.append)
            return found
        self.assertEqual(grants((False, 5), (True, 9), (True, 7), (False, 10)), [])
        for kinds in [((False, 5), (False, 5)), ((False, 5), (True, 4)), ((True, 9), (True, 7), (False, 8))]:
            self.assertTrue(any("went back" in one for one in grants(*kinds)), kinds)

    def test_shares(self):
        self.assertTrue(any("grants to go" in f for f in self.findings(
            [line.replace(" go ", " rota ") if line[0] in "EL" else line for line in legal()])))
        self.assertTrue(any("fewer" in f for f in self.findings([x for x in legal() if not x.startswith("X go")])))

    def test_observers(self):
        self.finds("saw 'other'", "O go 10 rota:0", ["O go 10 other"])
        self.finds("saw 'rota:0'", "O rota 20 go:1", ["O rota 20 rota:0"])
        self.finds("went back", "O go 500 go:49", ["O go 10 rota:0"])
        self.finds("not seen", "W", ["W", "M go 1001 20 40 1 1"])
        self.assertTrue(any("only 0 leaders of rota" in f for f in self.findings(
            [x for x in legal() if not (x.startswith("O go") and "rota:" in x)])))


unittest.main()
