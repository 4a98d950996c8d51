package sojourn.bench;

import java.io.IOException;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.TimerTask;

/** What add and cancel cost while many timers are already pending (hand-moved clock). */
final class Growth {
    private final long[] pending;
    private final long[] batch;
    private final long[] cancelOrder;
    private final int warmups;
    private final int rounds;

    Growth(Bench.Options options) throws IOException {
        pending = Inputs.longs(options.text("pending"));
        batch = Inputs.longs(options.text("batch"));
        cancelOrder = Inputs.longs(options.text("cancel_order"));
        warmups = options.number("warmups");
        rounds = options.number("rounds");
    }

    Row measure() {
        Expiry.Tally tally = new Expiry.Tally(0);
        SystemTimer timer = new SystemTimer("bench");
        for (long delayMs : pending)
            timer.add(new Expiry(delayMs, tally));

        TimerTask[] tasks = new TimerTask[batch.length];
        TimerTask[] victims = new TimerTask[batch.length];
        long addedNs = 0;
        long cancelledNs = 0;
        long cpuNs = 0;
        for (int round = -warmups; round < rounds; round++) {
            long cpu = -Cpu.ns();
            long started = System.nanoTime();
            for (int i = 0; i < batch.length; i++) {
                TimerTask task = new Expiry(batch[i], tally);
                timer.add(task);
                tasks[i] = task;
            }
            long added = System.nanoTime() - started;
            cpu += Cpu.ns();
            for (int i = 0; i < victims.length; i++)
                victims[i] = tasks[(int) cancelOrder[i]];
            cpu -= Cpu.ns();
            started = System.nanoTime();
            for (TimerTask victim : victims)
                victim.cancel();
            long cancelled = System.nanoTime() - started;
            cpu += Cpu.ns();
            if (round >= 0) {
                addedNs += added;
                cancelledNs += cancelled;
                cpuNs += cpu;
            }
        }
        double operations = (double) rounds * batch.length;
        return new Row()
            .put("add_ns", addedNs / operations)
            .put("cancel_ns", cancelledNs / operations)
            .put("cpu_ns", cpuNs / operations);
    }
}
