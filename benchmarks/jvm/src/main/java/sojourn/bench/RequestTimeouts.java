package sojourn.bench;

import java.io.IOException;
import org.apache.kafka.common.utils.HandClock;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;

/**
 * Many timers added, most cancelled, the rest expired, all through Kafka's SystemTimer.
 *
 * <p>With the hand-moved clock this thread calls {@code advanceClock}, as Kafka's reaper does, and
 * an expiry counts as done when Kafka's executor has run the task. With the system clock Kafka's
 * SystemTimerReaper drives the timer from its own thread and only add and cancel are measured.
 */
final class RequestTimeouts {
    private static final long PAST_ALL_MS = 30_001;

    private final long[] delays;
    private final long[] cancelOrder;
    private final boolean systemClock;
    private final int warmups;
    private final int rounds;

    RequestTimeouts(Bench.Options options) throws IOException {
        delays = Inputs.longs(options.text("delays"));
        cancelOrder = Inputs.longs(options.text("cancel_order"));
        systemClock = options.flag("system_clock");
        warmups = options.number("warmups");
        rounds = options.number("rounds");
    }

    Row measure() throws Exception {
        double[] addNs = new double[rounds];
        double[] cancelNs = new double[rounds];
        double[] expireNs = new double[rounds];
        double[] totalMs = new double[rounds];
        double[] cpuMs = new double[rounds];
        int survivors = delays.length - cancelOrder.length;
        for (int round = -warmups; round < rounds; round++) {
            System.gc(); // each round starts on a clean heap, as a fresh process would
            long[] spent = round();
            if (round < 0)
                continue;
            addNs[round] = (double) spent[0] / delays.length;
            cancelNs[round] = (double) spent[1] / cancelOrder.length;
            expireNs[round] = (double) spent[2] / survivors;
            totalMs[round] = (spent[0] + spent[1] + spent[2]) / 1e6;
            cpuMs[round] = spent[3] / 1e6;
        }
        Row row = new Row()
            .put("add_ns", Row.median(addNs))
            .put("cancel_ns", Row.median(cancelNs));
        if (!systemClock)
            row.put("expire_ns", Row.median(expireNs)).put("total_ms", Row.median(totalMs));
        return row.put("cpu_ms", Row.median(cpuMs));
    }

    private long[] round() throws Exception {
        Expiry.Tally tally = new Expiry.Tally(delays.length - cancelOrder.length);
        Timer timer = new SystemTimer("bench");
        if (systemClock)
            timer = new SystemTimerReaper("bench-reaper", timer);
        TimerTask[] tasks = new TimerTask[delays.length];

        long cpu = -Cpu.ns();
        long started = System.nanoTime();
        for (int i = 0; i < delays.length; i++) {
            TimerTask task = new Expiry(delays[i], tally);
            timer.add(task);
            tasks[i] = task;
        }
        long added = System.nanoTime() - started;
        cpu += Cpu.ns();

        TimerTask[] victims = new TimerTask[cancelOrder.length];
        for (int i = 0; i < victims.length; i++)
            victims[i] = tasks[(int) cancelOrder[i]];
        cpu -= Cpu.ns();
        started = System.nanoTime();
        for (TimerTask victim : victims)
            victim.cancel();
        long cancelled = System.nanoTime() - started;
        cpu += Cpu.ns();

        long expired = 0;
        if (!systemClock) {
            cpu -= Cpu.ns();
            started = System.nanoTime();
            HandClock.advance(PAST_ALL_MS);
            while (timer.advanceClock(0)) {
                // until nothing is due
            }
            tally.awaitAll();
            expired = System.nanoTime() - started;
            cpu += Cpu.ns();
        }
        timer.close();
        return new long[] {added, cancelled, expired, cpu};
    }
}
