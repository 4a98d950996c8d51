package sojourn.bench;

import java.io.IOException;
import java.util.List;
import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;

/**
 * Many operations on one key of Kafka's DelayedOperationPurgatory, each waiting for an offset.
 *
 * <p>Either no signal reaches anybody's offset, and the price of one is asked for, or each
 * completes exactly one operation. The purgatory has Kafka's own defaults: system clock, reaper
 * thread on. Kafka tries every operation on the key at every signal.
 */
final class OneKey {
    private static final long TIMEOUT_MS = 600_000; // longer than any run
    private static final long FAR = 1_000_000_000L; // an offset that no signal reaches

    private final DelayedOperationPurgatory<Waiter> purgatory =
        new DelayedOperationPurgatory<>("bench", 0);
    private final long[] offsets;
    private final boolean ready;
    private final long signalNs;
    private final int warmups;
    private final int rounds;
    private int ended = 0; // only the playing thread completes

    OneKey(Bench.Options options) throws IOException {
        offsets = Inputs.longs(options.text("offsets"));
        ready = options.flag("ready");
        signalNs = options.number("signal_ms") * 1_000_000L;
        warmups = options.number("warmups");
        rounds = options.number("rounds");
    }

    Row measure() {
        return ready ? oneByOne() : notReady();
    }

    private Row oneByOne() {
        int n = offsets.length;
        double[] submitUs = new double[rounds];
        double[] signalUs = new double[rounds];
        long cpuNs = 0;
        for (int round = -warmups; round < rounds; round++) {
            Operation.Key key = new Operation.Key("key" + round);
            Log log = new Log();
            long started = System.nanoTime();
            submitAll(key, log, 1);
            long submitted = System.nanoTime();
            long cpuStarted = Cpu.ns();
            int completed = signalAll(key, log, 1, n);
            long spentNs = System.nanoTime() - submitted;
            if (completed != n || ended != n)
                throw new IllegalStateException(completed + " of " + n + " were completed");
            ended = 0;
            if (round < 0)
                continue;
            cpuNs += Cpu.ns() - cpuStarted;
            submitUs[round] = (submitted - started) / 1e3 / n;
            signalUs[round] = spentNs / 1e3 / n;
        }
        return new Row()
            .put("submit_us", Row.median(submitUs))
            .put("signal_us", Row.median(signalUs))
            .put("signal_cpu_us", cpuNs / 1e3 / rounds / n)
            .put("completions_per_s", 1e6 / Row.median(signalUs));
    }

    private Row notReady() {
        Operation.Key key = new Operation.Key("key");
        Log log = new Log();
        submitAll(key, log, FAR);
        signalFor(2 * signalNs, key, log); // to warm up

        long cpuStarted = Cpu.ns();
        long started = System.nanoTime();
        long signals = signalFor(signalNs, key, log);
        double spentUs = (System.nanoTime() - started) / 1e3;
        double cpuUs = (Cpu.ns() - cpuStarted) / 1e3;
        if (ended != 0)
            throw new IllegalStateException(ended + " were completed by signals for nobody");
        return new Row().put("signal_us", spentUs / signals).put("signal_cpu_us", cpuUs / signals);
    }

    private void submitAll(Operation.Key key, Log log, long first) {
        List<Operation.Key> keys = List.of(key);
        for (long offset : offsets)
            purgatory.tryCompleteElseWatch(new Waiter(log, first + offset), keys);
    }

    private int signalAll(Operation.Key key, Log log, long first, long count) {
        int completed = 0;
        for (long offset = first; offset < first + count; offset++) {
            log.end = offset;
            completed += purgatory.checkAndComplete(key);
        }
        return completed;
    }

    /** Signals for at least this long; how many times. */
    private long signalFor(long ns, Operation.Key key, Log log) {
        long started = System.nanoTime();
        long signals = 0;
        while (System.nanoTime() - started < ns) {
            signalAll(key, log, log.end + 1, 1);
            signals++;
        }
        return signals;
    }

    /** What has come so far on the key; whoever signals writes it first. */
    private static final class Log {
        volatile long end = 0;
    }

    private final class Waiter extends DelayedOperation {
        private final Log log;
        private final long offset;

        Waiter(Log log, long offset) {
            super(TIMEOUT_MS);
            this.log = log;
            this.offset = offset;
        }

        @Override
        public boolean tryComplete() {
            return log.end >= offset && forceComplete();
        }

        @Override
        public void onComplete() {
            ended++;
        }

        @Override
        public void onExpiration() {
        }
    }
}
