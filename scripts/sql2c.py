#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the SQL of an engine into C texts.

sql2c.py OUT.c PREFIX FILE...: "--@ name" begins a text, PREFIXname in C; "--@ name as it is" one whose lines people read.
"#define NAME(a, b) ..." as in C, on lines that end with a backslash; it counts from there on, in later files too. What
stands in capitals and has a definition is replaced by it. Other comments go, and so does white space but for one."""
import re
import sys

BEGIN = re.compile(r"^--@ (\w+)( as it is)?$")
DEFINE = re.compile(r"^#define (\w+)(?:\(([^)]*)\))? (.*)$", re.S)
TOKEN = re.compile(r"'(?:[^']|'')*'|\b[A-Z][A-Z_]+\b|.", re.S)


def arguments(text, at):
    """Those of a call whose parenthesis opens at AT, and where it ends."""
    depth, start, found = 0, at + 1, []
    for token in TOKEN.finditer(text, at):
        depth += (token[0] == "(") - (token[0] == ")")
        if depth == 0 or (depth == 1 and token[0] == ","):
            found.append(text[start:token.start()].strip())
            start = token.end()
        if depth == 0:
            return found, token.end()
    sys.exit(f"sql2c: no end: {text[at:at + 60]}")


def expand(text, macros):
    at = 0
    while word := TOKEN.match(text, at):
        name, end = word[0], word.end()
        if name not in macros:
            at = end
            continue
        names, body = macros[name]
        if names:
            values, end = arguments(text, end)
            if len(values) != len(names):
                sys.exit(f"sql2c: {name} has {len(names)} arguments: {text[word.start():end]}")
            for parameter, value in zip(names, values):
                body = re.sub(rf"\b{parameter}\b", lambda _, v=value: v, body)
        text, at = text[: word.start()] + body + text[end:], word.start()
    return text


def read(path, macros, texts):
    name, raw = None, False
    with open(path, encoding="ascii") as source:
        lines = re.sub(r"\s*\\\n\s*", " ", source.read()).split("\n")
    for line in lines:
        begins, define = BEGIN.match(line), DEFINE.match(line)
        if begins:
            name, raw = begins[1], begins[2] is not None
            texts[name] = ""
        elif define:
            names = [n.strip() for n in define[2].split(",")] if define[2] else []
            macros[define[1]] = (names, define[3].strip())
        elif name and not line.lstrip().startswith("--"):
            texts[name] += expand(line, macros) + "\n" if raw else line + " "
    for key in texts:
        if not texts[key].endswith("\n"):
            texts[key] = " ".join(expand(texts[key], macros).split())


def main():
    out, prefix, macros, texts = sys.argv[1], sys.argv[2], {}, {}
    for path in sys.argv[3:]:
        read(path, macros, texts)
    with open(out, "w", encoding="ascii") as c:
        c.write("/* Made by scripts/sql2c.py. */\n")
        for name, text in texts.items(): # by bytes: a string may only be so long
            body = ", ".join(str(b) for b in text.rstrip("\n ").encode() + (b"\n\0" if "\n" in text else b"\0"))
            c.write(f"\nextern const char {prefix}{name}[];\nconst char {prefix}{name}[] = {{{body}}};\n")


main()
