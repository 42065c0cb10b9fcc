// SPDX-License-Identifier: Apache-2.0
// Curator in contention with Rota: CuratorSide mutex|rw|latch SERVERS PATH FOLDER THINK_US

import java.lang.reflect.Method;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

public final class CuratorSide {
    private static final int SESSION_MS = 2000;

    private final Guard guard;
    private final CuratorFramework client;
    private final String path;
    private int rounds;

    private CuratorSide(String servers, String path, String folder) throws Exception {
        this.guard = new Guard(folder);
        this.path = path;
        client = CuratorFrameworkFactory.newClient(servers, SESSION_MS, 15000, new RetryNTimes(50, 100));
        client.start();
        if (!client.blockUntilConnected(20, java.util.concurrent.TimeUnit.SECONDS))
            throw new IllegalStateException("no connection to " + servers);
    }

    // Curator does not tell it: the server is asked.
    private long fence(String node) throws Exception {
        Stat stat = client.checkExists().forPath(node);
        if (stat == null)
            throw new KeeperException.NoNodeException(node);
        return stat.getCzxid();
    }

    // Short, and now and then long enough for a kill to find a holder.
    private static void work() throws InterruptedException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        if (random.nextInt(16) == 0)
            Thread.sleep(20);
        else
            Thread.sleep(0, random.nextInt(500000));
    }

    private void inside(String node, String value, boolean shared) throws Exception {
        long fence = fence(node), count = guard.enter(fence, value, shared);
        work();
        guard.leave(fence, count, shared);
    }

    private static String nodeOf(InterProcessMutex mutex) throws Exception {
        Method method = InterProcessMutex.class.getDeclaredMethod("getLockPath");
        method.setAccessible(true);
        return (String) method.invoke(mutex);
    }

    private void locked(InterProcessMutex mutex, boolean shared) throws Exception {
        mutex.acquire();
        try {
            inside(nodeOf(mutex), "", shared);
        } finally {
            mutex.release();
        }
    }

    private void latch() throws Exception {
        String value = "java:" + guard.me + ":" + ++rounds;
        try (LeaderLatch latch = new LeaderLatch(client, path, value)) {
            latch.start();
            latch.await();
            inside(latch.getOurPath(), value, false);
        }
    }

    private void round(String kind) throws Exception {
        if (kind.equals("latch")) {
            latch();
        } else if (kind.equals("rw")) {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
            boolean shared = ThreadLocalRandom.current().nextBoolean();
            locked(shared ? lock.readLock() : lock.writeLock(), shared);
        } else {
            locked(new InterProcessMutex(client, path), false);
        }
    }

    private void contend(String kind, int think) throws Exception {
        while (!guard.stopped()) {
            try {
                round(kind);
            } catch (KeeperException e) { // its session ended: while inside, that would be an overlap
                guard.say("S java " + guard.me + " " + e.getMessage());
            }
            if (think > 0)
                Thread.sleep(0, ThreadLocalRandom.current().nextInt(Math.min(think, 900) * 1000));
        }
        client.close();
    }

    public static void main(String[] args) throws Exception {
        try {
            new CuratorSide(args[1], args[2], args[3]).contend(args[0], Integer.parseInt(args[4]));
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1); // other threads would go on
        }
    }
}
