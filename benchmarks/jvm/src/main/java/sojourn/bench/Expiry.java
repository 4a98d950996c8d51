package sojourn.bench;

import java.util.concurrent.CountDownLatch;
import org.apache.kafka.server.util.timer.TimerTask;

/** A timer task that counts itself when it runs, as a user of Kafka's timer would write it. */
final class Expiry extends TimerTask {
    private final Tally tally;

    Expiry(long delayMs, Tally tally) {
        super(delayMs);
        this.tally = tally;
    }

    @Override
    public void run() {
        tally.hit();
    }

    /** How many have run; only the timer's one executor thread counts. */
    static final class Tally {
        private final int expected;
        private final CountDownLatch all = new CountDownLatch(1);
        private int ran = 0;

        Tally(int expected) {
            this.expected = expected;
        }

        void hit() {
            if (++ran == expected)
                all.countDown();
        }

        void awaitAll() throws InterruptedException {
            all.await();
        }
    }
}
