// SPDX-License-Identifier: Apache-2.0
// What both sides guard with the lock: see guard.h, which this mirrors.

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

final class Guard {
    private static final VarHandle WORD =
        MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final int OWNER = 0, COUNTER = 8, STOP = 16, GRANTS = 24;

    private final MappedByteBuffer page;
    private final FileChannel log;
    final long me = ProcessHandle.current().pid(); // the driver makes each worker the first of a group

    Guard(String folder) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(folder, "guard"), StandardOpenOption.READ,
                                                 StandardOpenOption.WRITE)) {
            page = file.map(FileChannel.MapMode.READ_WRITE, 0, 4096);
        }
        log = FileChannel.open(Path.of(folder, "log"), StandardOpenOption.WRITE, StandardOpenOption.APPEND);
    }

    // One line by one write: whole in the file, or not there.
    void say(String line) throws IOException {
        log.write(ByteBuffer.wrap((line + "\n").getBytes(StandardCharsets.UTF_8)));
    }

    private long get(int word) {
        return (long) WORD.getVolatile(page, word);
    }

    boolean stopped() {
        return get(STOP) != 0;
    }

    private void sayMet(long fence) throws IOException {
        say("V java " + me + " " + fence + " " + get(OWNER));
    }

    // As soon as the lock is held: the count read, for leave, which comes before the release.
    long enter(long fence, String value, boolean shared) throws IOException {
        long t = System.nanoTime(); // CLOCK_MONOTONIC
        if (shared ? get(OWNER) != 0 : !WORD.compareAndSet(page, OWNER, 0L, me)) {
            sayMet(fence);
            if (!shared)
                WORD.setVolatile(page, OWNER, me);
        }
        long count = get(COUNTER);
        say((shared ? "R" : "E") + " java " + me + " " + fence + " " + t + " " + count + " " + value);
        return count;
    }

    void leave(long fence, long count, boolean shared) throws IOException {
        if (shared && (get(OWNER) != 0 || get(COUNTER) != count))
            sayMet(fence);
        if (!shared)
            WORD.setVolatile(page, COUNTER, count + 1);
        WORD.getAndAdd(page, GRANTS, 1L);
        if (!shared && !WORD.compareAndSet(page, OWNER, me, 0L))
            sayMet(fence);
        say("L java " + me + " " + fence + " " + System.nanoTime());
    }
}
