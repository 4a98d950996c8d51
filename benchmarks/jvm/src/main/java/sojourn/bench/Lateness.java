package sojourn.bench;

import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * How long after its deadline a task of Kafka's SystemTimer runs, with an idle main thread.
 *
 * <p>All timers are added ahead and come due evenly. Lateness is counted twice: from the exact
 * deadline, and from the deadline rounded up to a whole millisecond. Kafka rounds down, so its
 * figures can be negative: that task ran early.
 */
final class Lateness {
    private static final int WARMUP_ROUNDS = 1;

    private final int rate;
    private final int durationMs;
    private final int leadMs;

    Lateness(Bench.Options options) {
        rate = options.number("rate");
        durationMs = options.number("duration_ms");
        leadMs = options.number("lead_ms");
    }

    Row measure() throws Exception {
        for (int round = 0; round < WARMUP_ROUNDS; round++)
            round();
        return round();
    }

    private Row round() throws Exception {
        int n = (int) Math.max(1, (long) rate * durationMs / 1_000);
        long[] dueNs = new long[n];
        long[] ranNs = new long[n];
        CountDownLatch done = new CountDownLatch(n);
        Timer timer = new SystemTimerReaper("bench-reaper", new SystemTimer("bench"));
        for (int i = 0; i < n; i++) {
            long delayMs = leadMs + (long) i * 1_000 / rate;
            dueNs[i] = System.nanoTime() + delayMs * 1_000_000L;
            timer.add(new Stamp(delayMs, ranNs, i, done));
        }
        done.await();
        timer.close();

        double[] exactMs = new double[n];
        double[] roundedMs = new double[n];
        for (int i = 0; i < n; i++) {
            exactMs[i] = (ranNs[i] - dueNs[i]) / 1e6;
            roundedMs[i] = ranNs[i] / 1e6 - Math.ceil(dueNs[i] / 1e6);
        }
        Row row = new Row();
        putPercentiles(row, "", roundedMs);
        putPercentiles(row, "exact_", exactMs);
        return row;
    }

    private static void putPercentiles(Row row, String prefix, double[] values) {
        Arrays.sort(values);
        row.put(prefix + "p50_ms", values[values.length / 2])
            .put(prefix + "p99_ms", values[values.length * 99 / 100])
            .put(prefix + "max_ms", values[values.length - 1]);
    }

    private static final class Stamp extends TimerTask {
        private final long[] ranNs;
        private final int index;
        private final CountDownLatch done;

        Stamp(long delayMs, long[] ranNs, int index, CountDownLatch done) {
            super(delayMs);
            this.ranNs = ranNs;
            this.index = index;
            this.done = done;
        }

        @Override
        public void run() {
            ranNs[index] = System.nanoTime();
            done.countDown();
        }
    }
}
