// SPDX-License-Identifier: Apache-2.0
// Redisson in contention with Rota.
//
//   RedissonSide lock|fair|rw SERVER NAME FOLDER THINK_US
//   RedissonSide told SERVER NAME lock|fair|rw WATCHDOG_MS     what to do comes line by line: lock, read, unlock
//   RedissonSide peer SERVER                                   what to measure does: see RedissonPeer.java
//
// Locks have no lease: Redisson's watchdog renews them.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public final class RedissonSide {
    private static final long TTL_MS = 2000;

    private final RedissonClient client;
    private final String name;
    private long rounds;

    private RedissonSide(String server, String name, long watchdog) {
        Config config = new Config();
        config.setThreads(2).setNettyThreads(2).setLockWatchdogTimeout(watchdog);
        config.setFairLockWaitTimeout(Math.max(watchdog, 3000));
        config.useSingleServer()
            .setAddress("redis://" + server)
            .setConnectionMinimumIdleSize(1)
            .setConnectionPoolSize(4)
            .setSubscriptionConnectionMinimumIdleSize(1);
        client = Redisson.create(config);
        this.name = name;
    }

    private Lock lock(String kind, boolean shared) {
        switch (kind) {
        case "rw":
            return shared ? client.getReadWriteLock(name).readLock() : client.getReadWriteLock(name).writeLock();
        case "fair":
            return client.getFairLock(name);
        default:
            return client.getLock(name);
        }
    }

    // Short, and now and then long enough for a kill to find a holder.
    private static void work() throws InterruptedException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        if (random.nextInt(16) == 0)
            Thread.sleep(20);
        else
            Thread.sleep(0, random.nextInt(500000));
    }

    private void round(Guard guard, String kind) throws Exception {
        boolean shared = kind.equals("rw") && ThreadLocalRandom.current().nextBoolean();
        Lock lock = lock(kind, shared);
        lock.lock();
        long fence = ++rounds, count = guard.enter(fence, "", shared); // it has none
        work();
        guard.leave(fence, count, shared);
        try {
            lock.unlock();
        } catch (IllegalMonitorStateException e) { // it ended by its time: while inside, that would be an overlap
            guard.say("S java " + guard.me + " " + e.getMessage());
        }
    }

    private void contend(Guard guard, String kind, int think) throws Exception {
        while (!guard.stopped()) {
            round(guard, kind);
            if (think > 0) {
                int us = ThreadLocalRandom.current().nextInt(think);
                Thread.sleep(us / 1000, us % 1000 * 1000);
            }
        }
    }

    private void told(String kind) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Lock held = null;
        System.out.println("ready " + client.getId() + ":" + Thread.currentThread().getId());
        for (String line; (line = in.readLine()) != null;) {
            if (line.equals("unlock")) {
                held.unlock();
            } else {
                held = lock(kind, line.equals("read"));
                held.lock();
            }
            System.out.println(line.equals("unlock") ? "unlocked" : "locked");
        }
    }

    public static void main(String[] args) throws Exception {
        try {
            if (args[0].equals("peer"))
                new RedissonPeer(args[1]).answerAll();
            else if (args[0].equals("told"))
                new RedissonSide(args[1], args[2], Long.parseLong(args[4])).told(args[3]);
            else
                new RedissonSide(args[1], args[2], TTL_MS)
                    .contend(new Guard(args[3]), args[0], Integer.parseInt(args[4]));
            System.exit(0);
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // other threads would go on
        }
    }
}
