#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the frames that record.sh took off two terminal panes as one SVG, which plays them once round and round.

    record-svg.py FOLDER COUNT >OUT.svg

A strip of frames moves behind a window of one frame's size. Where nothing moves (a printer, a reader who asked for no
motion) the last frame stays. Lines are drawn once and used by every frame they are in.
"""
import html
import pathlib
import re
import sys
import unicodedata

COLUMNS, CELL, LINE, PAD, BAR = 88, 8.4, 18, 14, 30
INK, PAPER, EDGE = "#c9d1d9", "#0d1117", "#30363d"
PALETTE = ["#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4"]
BRIGHT = ["#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc"]


def restyle(style, codes):
    """STYLE (ink, bold, dim, reversed) after the numbers of one SGR sequence."""
    ink, bold, dim, back = style
    for code in codes:
        if code == 0:
            ink, bold, dim, back = INK, False, False, False
        elif code in (1, 2, 7):
            bold, dim, back = bold or code == 1, dim or code == 2, back or code == 7
        elif code == 22:
            bold = dim = False
        elif code == 27:
            back = False
        elif 30 <= code <= 37:
            ink = PALETTE[code - 30]
        elif 90 <= code <= 97:
            ink = BRIGHT[code - 90]
        elif code == 39:
            ink = INK
    return ink, bold, dim, back


def cells(text):
    """How many columns TEXT takes."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def runs(line, style):
    """Pieces (column, text, style) of one captured LINE that begins in STYLE, and the style it ends in: tmux does not
    say it again on the next line."""
    pieces, column = [], 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        match = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if match:
            style = restyle(style, [int(n or 0) for n in match[1].split(";")])
        # Words, each at its own column: not every reader of SVGs keeps several spaces, or knows our font.
        for word in re.findall(r"\S+(?: \S+)*|\s+", "" if match else part):
            if word.strip() or style[3]:
                pieces.append((column, word, style))
            column += cells(word)
    return pieces, style


def draw_run(column, text, style):
    ink, bold, dim, back = style
    width = cells(text) * CELL
    box = ""
    if back:
        box = f'<rect x="{column * CELL:.1f}" y="-13" width="{width:.1f}" height="{LINE}" fill="{ink}"/>'
        ink = PAPER
    marks = (' class="b"' if bold else "") + (' opacity=".6"' if dim else "")
    return (f'{box}<text x="{column * CELL:.1f}" textLength="{width:.1f}" fill="{ink}"{marks}>'
            f"{html.escape(text, quote=False)}</text>")


class Drawing:
    def __init__(self):
        self.lines = {}  # how a line looks -> its id

    def line(self, pieces):
        body = "".join(draw_run(*piece) for piece in pieces)
        return self.lines.setdefault(body, f"l{len(self.lines)}")

    def pane(self, path, top):
        """The <use> elements of one pane whose first line stands at TOP."""
        out, style = [], (INK, False, False, False)
        for row, line in enumerate(path.read_text().splitlines()):
            pieces, style = runs(line, style)
            if pieces:
                out.append(f'<use href="#{self.line(pieces)}" y="{top + row * LINE}"/>')
        return out

    def frame(self, folder, number, rows):
        out = self.pane(folder / f"frame{number}.0", 0)
        out += self.pane(folder / f"frame{number}.1", rows * LINE + LINE)
        for pane in (0, 1):
            x, y, active = map(int, (folder / f"frame{number}.{pane}.cursor").read_text().split())
            if active:
                y += pane * (rows + 1)
                out.append(f'<use href="#c" x="{x * CELL:.1f}" y="{y * LINE}"/>')
        return "".join(out)


def main():
    folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    rows = len((folder / "frame1.0").read_text().split("\n")) - 1
    rows_below = len((folder / "frame1.1").read_text().split("\n")) - 1
    drawing = Drawing()
    height = (rows + 1 + rows_below) * LINE
    width = COLUMNS * CELL

    shown, times = [], []  # frames that look like the one before only prolong it
    for number in range(1, count + 1):
        body = drawing.frame(folder, number, rows)
        seconds = float((folder / f"frame{number}.time").read_text())
        if shown and shown[-1] == body:
            times[-1] += seconds
        else:
            shown.append(body)
            times.append(seconds)

    total, at, steps = sum(times), 0.0, []
    for number, seconds in enumerate(times):
        steps.append(f"{100 * at / total:.2f}%{{transform:translateY({-number * height}px)}}")
        at += seconds
    last = -(len(shown) - 1) * height

    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 2 * PAD:.0f}" '
          f'height="{height + BAR + 2 * PAD:.0f}" viewBox="0 0 {width + 2 * PAD:.0f} {height + BAR + 2 * PAD:.0f}">')
    print("<title>A recorded run of rota</title>")
    print("<style>text{white-space:pre;font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
          ".b{font-weight:bold}"
          f".strip{{transform:translateY({last}px);animation:play {total:.2f}s step-end infinite}}"
          "@media(prefers-reduced-motion:reduce){.strip{animation:none}}"
          f"@keyframes play{{{''.join(steps)}100%{{transform:translateY({last}px)}}}}</style>")
    print("<defs>")
    print(f'<clipPath id="w"><rect width="{width:.0f}" height="{height}"/></clipPath>')
    print(f'<rect id="c" width="{CELL}" height="{LINE - 2}" fill="{INK}" opacity=".55"/>')
    for body, name in drawing.lines.items():
        print(f'<g id="{name}" transform="translate(0 13)">{body}</g>')
    print("</defs>")
    print(f'<rect width="100%" height="100%" rx="8" fill="{PAPER}" stroke="{EDGE}"/>')
    for i, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        print(f'<circle cx="{PAD + 6 + 20 * i}" cy="18" r="6" fill="{colour}"/>')
    print(f'<g transform="translate({PAD} {BAR + PAD - 4})">')
    print(f'<path d="M0 {rows * LINE + LINE / 2}H{width:.0f}" stroke="{EDGE}"/>')
    # The attribute is for those who do not know CSS transforms; the style goes before it.
    print(f'<g clip-path="url(#w)"><g class="strip" transform="translate(0 {last})">')
    for number, body in enumerate(shown):
        print(f'<g transform="translate(0 {number * height})">{body}</g>')
    print("</g></g></g></svg>")


main()
