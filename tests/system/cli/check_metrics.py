#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads Prometheus' text format (0.0.4) from stdin and complains about what is wrong with it;
prints each sample as NAME{LABELS} VALUE, unescaped, for the tests to look at."""
import math
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
UNESCAPED = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
SUFFIXES = ("_bucket", "_sum", "_count")


def fail(line, why):
    sys.exit(f"{why}: {line}")


def labels_of(line, text):
    labels, at = {}, 0
    while text and at < len(text):
        m = LABEL.match(text, at)
        if not m or (m.group(3) == "," and m.end() == len(text)):
            fail(line, "labels")
        if m.group(1) in labels:
            fail(line, "label twice")
        labels[m.group(1)] = re.sub(r'\\[n"\\]', lambda e: UNESCAPED[e.group()], m.group(2))
        at = m.end()
    return labels


def family_of(name, types):
    for suffix in SUFFIXES:
        base = name[: -len(suffix)]
        if name.endswith(suffix) and types.get(base) == "histogram":
            return base
    return name


def check_histogram(name, series):
    for key, parts in series.items():
        buckets = parts.get("_bucket", [])
        bounds = [b for b, _ in buckets]
        counts = [c for _, c in buckets]
        if not bounds or bounds[-1] != math.inf or bounds != sorted(set(bounds)):
            fail(name, f"bounds {bounds} of {key}")
        if counts != sorted(counts) or counts[-1] != parts["_count"]:
            fail(name, f"counts {counts} of {key} and {parts['_count']}")
        if parts["_sum"] < 0 or (parts["_count"] == 0 and parts["_sum"] != 0):
            fail(name, f"sum {parts['_sum']} of {key}")


def main():
    types, helped, done, current = {}, set(), set(), None
    seen, histograms = set(), {}
    text = sys.stdin.read()
    if not text.endswith("\n"):
        fail(text[-40:], "no newline at the end")
    for line in text.splitlines():
        m = re.match(rf"# (HELP|TYPE) ({NAME}) (.+)$", line)
        if m and m.group(1) == "HELP":
            if m.group(2) in helped or current in helped - set(types):
                fail(line, "HELP")
            helped.add(m.group(2))
            if current:
                done.add(current)
            current = m.group(2)
            continue
        if m:
            if m.group(2) != current or current in types:
                fail(line, "TYPE not right after its HELP")
            if m.group(3) not in ("counter", "gauge", "histogram"):
                fail(line, "type")
            types[current] = m.group(3)
            continue
        m = SAMPLE.match(line)
        if not m:
            fail(line, "neither sample nor comment")
        labels = labels_of(line, m.group(2) or "")
        name, value, family = m.group(1), float(m.group(3)), family_of(m.group(1), types)
        if family != current or family in done or family not in types:
            fail(line, f"not among those of {current}")
        if types[family] == "counter" and (not name.endswith("_total") or value < 0):
            fail(line, "counter")
        key = (name, tuple(sorted(labels.items())))
        if key in seen:
            fail(line, "twice")
        seen.add(key)
        if types[family] == "histogram":
            bound = labels.pop("le", None)
            series = histograms.setdefault(family, {}).setdefault(tuple(labels.items()), {})
            suffix = name[len(family):]
            if suffix == "_bucket":
                series.setdefault(suffix, []).append((float(bound), value))
            else:
                series[suffix] = value
            if suffix == "_bucket":
                continue
        print(name + "{" + ",".join(f"{k}={v}" for k, v in sorted(labels.items())) + "}", f"{value:g}")
    for name, series in histograms.items():
        check_histogram(name, series)


main()
