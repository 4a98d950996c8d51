package sojourn.bench;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * Plays one schedule of submissions and completions through Kafka's DelayedOperationPurgatory.
 *
 * <p>The purgatory has Kafka's own defaults: SystemTimer on the system clock, reaper thread on,
 * purge interval 1000. One purgatory serves all rounds, as in a server; what still waits at the
 * end of a round is completed before the next. One thread plays. Building the operation is timed,
 * building its keys is not. Warm-up rounds play the schedule as fast as they can; a paced run then
 * plays it in real time, each event at the next whole millisecond, as Kafka's own test sleeps.
 */
final class PurgatoryShape {
    private static final int KEYS_PER_OPERATION = 3;

    private final DelayedOperationPurgatory<Operation> purgatory =
        new DelayedOperationPurgatory<>("bench", 0);
    private final long[] events;
    private final long[] atUs;
    private final List<List<Operation.Key>> keys = new ArrayList<>();
    private final boolean signal;
    private final boolean paced;
    private final int warmups;
    private final int rounds;

    PurgatoryShape(Bench.Options options) throws IOException {
        events = Inputs.longs(options.text("events"));
        atUs = Inputs.longs(options.text("at_us"));
        signal = !options.text("variant").equals("force");
        paced = options.flag("paced");
        warmups = options.number("warmups");
        rounds = options.number("rounds");
        List<Operation.Key> pool = new ArrayList<>();
        for (int i = 0; i < options.number("key_space"); i++)
            pool.add(new Operation.Key("key-" + i));
        long[] drawn = Inputs.longs(options.text("keys"));
        for (int i = 0; i < drawn.length; i += KEYS_PER_OPERATION) {
            List<Operation.Key> own = new ArrayList<>(KEYS_PER_OPERATION);
            for (int j = 0; j < KEYS_PER_OPERATION; j++)
                own.add(pool.get((int) drawn[i + j]));
            keys.add(own);
        }
    }

    Row measure() {
        double[] opsPerS = new double[rounds];
        double[] behindMs = new double[rounds];
        long cpuNs = 0;
        for (int round = -warmups; round < rounds; round++) {
            long cpuStarted = Cpu.ns();
            long spentNs = play(paced && round >= 0);
            if (round < 0)
                continue;
            cpuNs += Cpu.ns() - cpuStarted;
            opsPerS[round] = keys.size() * 1e9 / spentNs;
            behindMs[round] = spentNs / 1e6 - atUs[atUs.length - 1] / 1e3;
        }
        Row row = new Row().put("cpu_us_per_op", cpuNs / 1e3 / rounds / keys.size());
        return paced
            ? row.put("behind_ms", Row.median(behindMs))
            : row.put("ops_per_s", Row.median(opsPerS));
    }

    private long play(boolean inRealTime) {
        Operation.Ended ended = new Operation.Ended();
        Operation[] operations = new Operation[keys.size()];
        int completions = 0;

        long started = System.nanoTime();
        for (int i = 0; i < events.length; i++) {
            if (inRealTime)
                waitUntil(started + (atUs[i] / 1_000 + 1) * 1_000_000L);
            int number = (int) (events[i] >> 1);
            if ((events[i] & 1) == 0) {
                Operation operation = new Operation(ended);
                operations[number] = operation;
                purgatory.tryCompleteElseWatch(operation, keys.get(number));
                continue;
            }
            completions++;
            Operation operation = operations[number];
            operations[number] = null;
            if (signal) {
                operation.markReady();
                purgatory.checkAndComplete(keys.get(number).get(0));
            } else {
                operation.forceComplete();
            }
        }
        long spentNs = System.nanoTime() - started;
        if (ended.completed != completions || ended.expired != 0)
            throw new IllegalStateException(ended.completed + " completed, not " + completions);
        for (Operation leftOver : operations)
            if (leftOver != null)
                leftOver.forceComplete();
        return spentNs;
    }

    private static void waitUntil(long atNs) {
        for (long left = atNs - System.nanoTime(); left > 0; left = atNs - System.nanoTime())
            LockSupport.parkNanos(left);
    }
}
