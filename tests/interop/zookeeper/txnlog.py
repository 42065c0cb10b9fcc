# SPDX-License-Identifier: Apache-2.0
"""What a ZooKeeper server has written down itself: its transaction log, read.

A record is its checksum, its size, a header (session, cxid, zxid, time, kind), what was done, and one byte.
"""
import struct
from pathlib import Path

CREATES = {1, 15, 19, 21}  # create, create2, container, with a ttl
DELETES = {2, 20}
MULTI, CLOSE = 14, -11


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return value

    def bytes(self):
        n = max(self.take("i"), 0)
        self.at += n
        return self.data[self.at - n:self.at]

    def text(self):
        return self.bytes().decode()


def steps(kind, r):
    """(came, path) of each node that was made or deleted."""
    if kind in CREATES:
        yield True, r.text()
    elif kind in DELETES:
        yield False, r.text()
    elif kind == CLOSE and r.at < len(r.data):
        for _ in range(r.take("i")):
            yield False, r.text()
    elif kind == MULTI:
        for _ in range(r.take("i")):
            part = r.take("i")
            yield from list(steps(part, Reader(r.bytes())))


def records(data):
    at = 16  # magic, version, database
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size <= 0 or at + 12 + size > len(data):
            return  # what follows was only made room for
        yield Reader(data[at + 12:at + 12 + size])
        at += 12 + size + 1


def read(folder):
    """(zxid, came, path), in the order it was done."""
    for file in sorted(Path(folder).glob("log.*"), key=lambda f: int(f.suffix[1:], 16)):
        for r in records(file.read_bytes()):
            r.take("q")
            r.take("i")
            zxid = r.take("q")
            r.take("q")
            for came, path in steps(r.take("i"), r):
                yield zxid, came, path
