// SPDX-License-Identifier: Apache-2.0
// Seata's server, which ends when whoever started it does: its input ends then.

public class SeataServer {
    public static void main(String[] args) throws Exception {
        Thread thread = new Thread(() -> {
            try {
                while (System.in.read() >= 0)
                    ;
            } catch (java.io.IOException e) {
                System.err.println(e);
            }
            Runtime.getRuntime().halt(0);
        });
        thread.setDaemon(true);
        thread.start();
        io.seata.server.ServerApplication.main(args);
    }
}
