package sojourn.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.util.timer.SystemTimer;

/** Heap per pending timer or operation: used after a full collection, with and without them. */
final class Memory {
    private static final int KEY_SPACE = 100;

    private final String of;
    private final long[] delays;
    private final Object[] held;

    Memory(Bench.Options options) throws IOException {
        of = options.text("of");
        delays = Inputs.longs(options.text("delays"));
        held = new Object[delays.length]; // the user's own references, not counted
    }

    Row measure() throws InterruptedException {
        long before = usedAfterCollection();
        Object owner = of.equals("operations") ? operations() : timers();
        double bytes = usedAfterCollection() - before;
        if (owner == null || held[held.length - 1] == null)
            throw new IllegalStateException("what was to be measured is gone");
        return new Row().put("bytes_each", bytes / held.length).put("total_mb", bytes / 1e6);
    }

    private Object timers() {
        Expiry.Tally tally = new Expiry.Tally(0);
        SystemTimer timer = new SystemTimer("bench");
        for (int i = 0; i < held.length; i++) {
            Expiry task = new Expiry(delays[i], tally);
            timer.add(task);
            held[i] = task;
        }
        return timer;
    }

    private Object operations() {
        Operation.Ended ended = new Operation.Ended();
        List<Operation.Key> pool = new ArrayList<>();
        for (int i = 0; i < KEY_SPACE; i++)
            pool.add(new Operation.Key("key-" + i));
        DelayedOperationPurgatory<Operation> purgatory = new DelayedOperationPurgatory<>("bench", 0);
        for (int i = 0; i < held.length; i++) {
            Operation operation = new Operation(ended);
            int first = i % (KEY_SPACE - 2);
            purgatory.tryCompleteElseWatch(operation, pool.subList(first, first + 3));
            held[i] = operation;
        }
        return purgatory;
    }

    private static long usedAfterCollection() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
