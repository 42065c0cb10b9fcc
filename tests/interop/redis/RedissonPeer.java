// SPDX-License-Identifier: Apache-2.0
// What Rota is compared with on Redis: Redisson's lock. One command a line on its input, one number each on its output; times
// are CLOCK_MONOTONIC, in ns:
//
//   mutex K MS     K threads with a lock of their own each, for so long: pairs per second
//   same K MS      K threads on one lock: pairs per second
//   lock NAME      the time of the grant
//   unlock         the time just before it

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

final class RedissonPeer {
    private final RedissonClient client;
    private RLock held;

    // As Redisson comes, with all of its threads and connections.
    RedissonPeer(String server) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + server);
        client = Redisson.create(config);
    }

    private double crowd(int threads, int ms, boolean same) throws InterruptedException {
        AtomicLong pairs = new AtomicLong();
        CountDownLatch over = new CountDownLatch(threads);
        long from = System.nanoTime(), end = from + ms * 1000000L;
        for (int i = 0; i < threads; i++) {
            RLock mine = client.getLock(same ? "redisson-same" : "redisson-" + i);
            new Thread(() -> {
                while (System.nanoTime() < end) {
                    mine.lock();
                    mine.unlock();
                    pairs.incrementAndGet();
                }
                over.countDown();
            }).start();
        }
        over.await();
        return pairs.get() * 1e9 / (System.nanoTime() - from);
    }

    private double answer(String[] word) throws InterruptedException {
        switch (word[0]) {
        case "mutex":
        case "same":
            return crowd(Integer.parseInt(word[1]), Integer.parseInt(word[2]), word[0].equals("same"));
        case "lock":
            held = client.getLock(word[1]);
            held.lock();
            return System.nanoTime();
        case "unlock":
            long at = System.nanoTime();
            held.unlock();
            return at;
        default:
            throw new IllegalArgumentException(word[0]);
        }
    }

    void answerAll() throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line; (line = in.readLine()) != null;)
            System.out.println(String.format("%.3f", answer(line.split(" "))));
    }
}
