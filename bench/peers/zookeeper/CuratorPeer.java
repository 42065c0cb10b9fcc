// SPDX-License-Identifier: Apache-2.0
// What Rota is compared with on ZooKeeper: Curator's InterProcessMutex.
//
//   CuratorPeer SERVERS
//
// One command a line on its input, one number each on its output; times are CLOCK_MONOTONIC, in ns:
//
//   mutex K MS     K threads with a mutex of their own each, for so long: pairs per second
//   same K MS      K threads on one mutex: pairs per second
//   lock NAME      the time of the grant
//   unlock         the time just before it
//   line NAME      how many are in it

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;

public final class CuratorPeer {
    private static final int SESSION_MS = 60000; // none ends while something is measured

    private final CuratorFramework client;
    private InterProcessMutex held;

    private CuratorPeer(String servers) throws Exception {
        client = CuratorFrameworkFactory.newClient(servers, SESSION_MS, 15000, new RetryNTimes(3, 100));
        client.start();
        client.blockUntilConnected();
    }

    private InterProcessMutex mutex(String name) {
        return new InterProcessMutex(client, "/curator/" + name);
    }

    private double crowd(int threads, int ms, boolean same) throws Exception {
        AtomicLong pairs = new AtomicLong();
        CountDownLatch over = new CountDownLatch(threads);
        InterProcessMutex one = mutex("same");
        long from = System.nanoTime(), end = from + ms * 1000000L;
        for (int i = 0; i < threads; i++) {
            InterProcessMutex mine = same ? one : mutex("n" + i);
            new Thread(() -> {
                try {
                    while (System.nanoTime() < end) {
                        mine.acquire();
                        mine.release();
                        pairs.incrementAndGet();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
                over.countDown();
            }).start();
        }
        over.await();
        return pairs.get() * 1e9 / (System.nanoTime() - from);
    }

    private double answer(String[] word) throws Exception {
        switch (word[0]) {
        case "mutex":
        case "same":
            return crowd(Integer.parseInt(word[1]), Integer.parseInt(word[2]), word[0].equals("same"));
        case "lock":
            held = mutex(word[1]);
            held.acquire();
            return System.nanoTime();
        case "unlock":
            long at = System.nanoTime();
            held.release();
            return at;
        case "line":
            return client.getChildren().forPath("/curator/" + word[1]).size();
        default:
            throw new IllegalArgumentException(word[0]);
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorPeer peer = new CuratorPeer(args[0]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;)
            System.out.println(String.format("%.3f", peer.answer(line.split(" "))));
        System.exit(0);
    }
}
