// SPDX-License-Identifier: Apache-2.0
// ShedLock's provider for JDBC, by the database's time, in contention with Rota: ShedLockSide URL NAME FOLDER THINK_US
//
// It never waits: whoever does not get the lock asks again a while later. URL as Rota's: SCHEME://USER@HOST:PORT/DATABASE[?password_file=FILE].

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.ThreadLocalRandom;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

public final class ShedLockSide {
    private static final Duration TTL = Duration.ofSeconds(2);

    private static String password(URI at) throws IOException {
        String file = at.getQuery() == null ? "" : at.getQuery().replaceFirst(".*password_file=([^&]*).*", "$1");
        return file.isEmpty() ? "" : Files.readString(Path.of(file)).strip();
    }

    private static LockProvider connect(String url, long me) throws IOException {
        URI at = URI.create(url);
        String scheme = at.getScheme().equals("postgres") ? "postgresql" : "mariadb";
        SingleConnectionDataSource source = new SingleConnectionDataSource(
            "jdbc:" + scheme + "://" + at.getHost() + ":" + at.getPort() + at.getPath(), at.getUserInfo(),
            password(at), true);
        return new JdbcTemplateLockProvider(JdbcTemplateLockProvider.Configuration.builder()
                                                .withJdbcTemplate(new JdbcTemplate(source))
                                                .withLockedByValue("shedlock/" + me) // by default all of a host are one
                                                .usingDbTime()
                                                .build());
    }

    private static void rest(int us) throws InterruptedException {
        if (us > 0)
            Thread.sleep(us / 1000, us % 1000 * 1000);
    }

    // Short, and now and then long enough for a kill to find a holder.
    private static void work() throws InterruptedException {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        rest(random.nextInt(16) == 0 ? 20000 : random.nextInt(500));
    }

    private static void contend(LockProvider locks, String name, Guard guard, int think) throws Exception {
        ThreadLocalRandom random = ThreadLocalRandom.current();
        for (long rounds = 1; !guard.stopped();) {
            Optional<SimpleLock> lock = locks.lock(new LockConfiguration(Instant.now(), name, TTL, Duration.ZERO));
            if (lock.isEmpty()) {
                rest(10000 + random.nextInt(10000));
                continue;
            }
            long fence = rounds++, count = guard.enter(fence, "", false); // it has none
            work();
            guard.leave(fence, count, false);
            lock.get().unlock();
            rest(random.nextInt(think + 1));
        }
    }

    public static void main(String[] args) throws Exception {
        try {
            Guard guard = new Guard(args[2]);
            contend(connect(args[0], guard.me), args[1], guard, Integer.parseInt(args[3]));
        } catch (Throwable e) {
            e.printStackTrace();
            System.exit(1);
        }
    }
}
