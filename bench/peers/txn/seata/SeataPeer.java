// SPDX-License-Identifier: Apache-2.0
// Seata's XA and TCC modes for rota-bench (txn_peers.c, tcc_peers.c): its server (its store is a file, forced at
// each write: as it comes it is not, and loses what it has acknowledged), and clients whose commit returns when phase two is over.
//
//   SeataPeer MYSQL-PORT:PASSWORD:POSTGRES-PORT:FOLDER   says "ready", then per line: how many per second
//     xa A B CLIENTS SECONDS   transfers between A and B, each mysql or postgres
//     tcc CLIENTS SECONDS      two actions that do nothing

import com.alibaba.druid.pool.DruidDataSource;
import io.seata.core.context.RootContext;
import io.seata.core.model.BranchType;
import io.seata.rm.RMClient;
import io.seata.rm.datasource.xa.DataSourceProxyXA;
import io.seata.tm.TMClient;
import io.seata.tm.api.GlobalTransaction;
import io.seata.tm.api.GlobalTransactionContext;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.sql.Connection;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import javax.sql.DataSource;

public class SeataPeer {
    static final int ACCOUNTS = 1000; // of each client: see txn.h
    static final Map<String, DataSource[]> databases = new HashMap<>();

    static int freePort() throws IOException {
        try (ServerSocket s = new ServerSocket(0)) {
            return s.getLocalPort();
        }
    }

    static boolean listens(int port) {
        try (Socket s = new Socket()) {
            s.connect(new InetSocketAddress("127.0.0.1", port), 200);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    // It ends with us: it reads a pipe of ours (SeataServer).
    static void startServer(String folder) throws Exception {
        int port = freePort();
        File log = new File(folder, "seata.log");
        String[] settings = {"user.home=" + folder, "server.port=" + freePort(), "seata.config.type=file",
            "seata.registry.type=file", "seata.store.file.dir=" + folder + "/seata",
            "seata.store.file.flushDiskMode=sync", // durable, as all that is measured here
            "seata.security.secretKey=c2VhdGEtcGVlci1vZi1yb3RhLWJlbmNoLWEtbG9uZy1rZXk=",
            "seata.security.tokenValidityInMilliseconds=1800000", "seata.security.ignore.urls=/**",
            "console.user.username=seata", "console.user.password=seata", "logging.file.path=" + folder,
            "logging.level.root=warn", "logging.level.io.seata=warn"};
        List<String> command = new ArrayList<>(List.of(System.getProperty("java.home") + "/bin/java", "-Xmx512m",
            "-XX:-UsePerfData", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp",
            System.getProperty("rota.server")));
        for (String setting : settings)
            command.add("-D" + setting);
        command.addAll(List.of("SeataServer", "-h", "127.0.0.1", "-p", "" + port, "-m", "file"));
        ProcessBuilder builder = new ProcessBuilder(command).directory(new File(folder));
        builder.redirectErrorStream(true).redirectOutput(log);
        Process server = builder.start();
        for (int i = 0; i < 1200 && !listens(port); i++) {
            if (!server.isAlive())
                throw new IOException("Seata's server has ended: see " + log);
            Thread.sleep(100);
        }
        System.setProperty("service.default.grouplist", "127.0.0.1:" + port);
    }

    static DataSource open(String url, String user, String password) {
        DruidDataSource pool = new DruidDataSource();
        pool.setUrl(url);
        pool.setUsername(user);
        pool.setPassword(password);
        pool.setMaxActive(64);
        pool.setInitialSize(16);
        DataSourceProxyXA database = new DataSourceProxyXA(pool);
        // Seata takes MariaDB 10.11 for a MySQL later than 8.0.29, and commits on another connection: that fails here.
        database.setShouldBeHeld(!url.startsWith("jdbc:postgresql"));
        return database;
    }

    static void pay(DataSource database, int id, int by) throws Exception {
        try (Connection c = database.getConnection()) {
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.executeUpdate("UPDATE account SET balance = balance + (" + by + ") WHERE id = " + id);
            }
            c.commit(); // prepares
        }
    }

    static void transfer(DataSource[] sides, int client) throws Exception {
        int id = client * ACCOUNTS + ThreadLocalRandom.current().nextInt(ACCOUNTS);
        GlobalTransaction t = GlobalTransactionContext.getCurrentOrCreate();
        t.begin(60000, "transfer");
        RootContext.bindBranchType(BranchType.XA);
        try {
            pay(sides[0], id, -1);
            pay(sides[1], id, 1);
            t.commit();
        } catch (Exception e) {
            t.rollback();
            throw e;
        } finally {
            RootContext.unbindBranchType();
            RootContext.unbind();
        }
    }

    interface Order {
        void run(int client) throws Exception;
    }

    static double measure(Order order, int clients, double seconds) throws Exception {
        AtomicLong done = new AtomicLong();
        List<Thread> threads = new ArrayList<>();
        long from = System.nanoTime(), until = from + (long) (seconds * 1e9);
        for (int i = 0; i < clients; i++) {
            int client = i;
            Thread thread = new Thread(() -> {
                while (System.nanoTime() < until) {
                    try {
                        order.run(client);
                        done.incrementAndGet();
                    } catch (Exception e) {
                        System.err.println("seata-peer: " + e);
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads)
            thread.join();
        return done.get() / ((System.nanoTime() - from) / 1e9);
    }

    static SeataTcc services;

    static Order orderOf(String[] word) {
        if (word[0].equals("tcc")) {
            if (services == null)
                services = new SeataTcc();
            return client -> services.order();
        }
        DataSource[] sides = {databases.get(word[1])[0], databases.get(word[2])[1]};
        return client -> transfer(sides, client);
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err);
        String[] part = args[0].split(":", 4);
        startServer(part[3]);
        TMClient.init("bench", "bench");
        RMClient.init("bench", "bench");
        String[] names = {"left", "right"};
        DataSource[] mysql = new DataSource[2], postgres = new DataSource[2];
        for (int i = 0; i < 2; i++) {
            mysql[i] = open("jdbc:mysql://127.0.0.1:" + part[0] + "/" + names[i] + "?useSSL=false", "rota", part[1]);
            postgres[i] = open("jdbc:postgresql://127.0.0.1:" + part[2] + "/" + names[i], "postgres", "");
        }
        databases.put("mysql", mysql);
        databases.put("postgres", postgres);
        out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            String[] word = line.split(" ");
            int n = word.length;
            out.println(measure(orderOf(word), Integer.parseInt(word[n - 2]), Double.parseDouble(word[n - 1])));
            out.flush();
        }
        System.exit(0);
    }
}
