# SPDX-License-Identifier: Apache-2.0
"""What Rota is compared with on ZooKeeper: kazoo's Lock.

  kazoo_peer.py SERVERS

One command a line on its input, one number each on its output:

  mutex K MS     K threads with a lock of their own each, for so long: pairs per second
  same K MS      K threads on one lock: pairs per second
"""
import sys
import threading
import time

from kazoo.client import KazooClient

SESSION_S = 60.0  # none ends while something is measured


def crowd(client, threads, ms, same):
    pairs = [0] * threads
    end = time.monotonic() + ms / 1000

    def go(i):
        lock = client.Lock("/kazoo/" + ("same" if same else f"n{i}"))
        while time.monotonic() < end:
            lock.acquire()
            lock.release()
            pairs[i] += 1

    crew = [threading.Thread(target=go, args=(i,)) for i in range(threads)]
    begin = time.monotonic()
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    return sum(pairs) / (time.monotonic() - begin)


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=SESSION_S)
    client.start(timeout=20)
    print("ready", flush=True)
    for line in sys.stdin:
        word, threads, ms = line.split()
        print(f"{crowd(client, int(threads), int(ms), word == 'same'):.3f}", flush=True)


main()
