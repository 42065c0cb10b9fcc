#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the Lua scripts of an engine on Redis into a C table of texts and their SHA1.

lua2c.py [--header H] [--scripts COUNT] [--parts DIR] OUT.c TABLE CLOCK FOLDER NAME...: "--@include part" in a script
stands for FOLDER/part/part.lua, or DIR/part.lua if that is not there (each once), comments and indentation go, and each
script is there as it is and for clusters: with SPUBLISH, and refused while its room is being moved. CLOCK is the part
that tells the time: clock, or clock_test."""
import argparse
import hashlib
import os
import re
import sys

INCLUDE = re.compile(r"^--@include (\w+)$")


def find_part(folders, name):
    for folder in folders:
        path = os.path.join(folder, name + ".lua")
        if os.path.exists(path):
            return path
    sys.exit(f"there is no part {name}")


def text_of(path, folders, clock, seen):
    lines = []
    with open(path, encoding="ascii") as source:
        for line in source:
            line = line.strip()
            part = INCLUDE.match(line)
            if part:
                name = clock if part[1] == "clock" else part[1]
                if name in seen:
                    sys.exit(f"{path}: {name} is included twice")
                seen.add(name)
                lines += text_of(find_part(folders, name), folders, clock, seen)
                continue
            line = re.sub(r"\s+--[^']*$", "", line)
            if line and not line.startswith("--"):
                lines.append(line)
    return lines


def c_string(lines):
    quoted = [line.replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return "\n".join(f'        "{line}\\n"' for line in quoted)


def entry(name, lines):
    text = "".join(line + "\n" for line in lines)
    sha1 = hashlib.sha1(text.encode("ascii")).hexdigest()
    return f'    {{"{name}",\n{c_string(lines)},\n        {len(text)}, "{sha1}"}},\n'


# While a slot moves key by key its old owner has half of a room, and a script would find lines empty
# or fail between two writes. But there a key that is nowhere is refused: so every script begins with one.
WHOLE = "redis.call('EXISTS', KEYS[1] .. ':m')"


def for_clusters(lines):
    return [WHOLE] + [line.replace("call('PUBLISH'", "call('SPUBLISH'") for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--header", default="engine/redis/script.h")
    parser.add_argument("--scripts", default="RT_REDIS_SCRIPTS")
    parser.add_argument("--parts", default="")
    for name in ["out", "table", "clock", "folder"]:
        parser.add_argument(name)
    parser.add_argument("names", nargs="+")
    a = parser.parse_args()
    folders = [os.path.join(a.folder, "part")] + ([a.parts] if a.parts else [])
    rows = []
    for name in a.names:
        lines = text_of(os.path.join(a.folder, name + ".lua"), folders, a.clock, set())
        rows.append("    {\n" + entry(name, lines) + entry(name, for_clusters(lines)) + "    },\n")
    with open(a.out, "w", encoding="ascii") as target:
        target.write(f"/* Made by scripts/lua2c.py. */\n#include \"{a.header}\"\n\n")
        target.write('#pragma GCC diagnostic ignored "-Woverlength-strings"\n\n')
        target.write(f"const struct rt_redis_text {a.table}[{a.scripts}][2] = {{\n")
        target.write("".join(rows) + "};\n")


main()
