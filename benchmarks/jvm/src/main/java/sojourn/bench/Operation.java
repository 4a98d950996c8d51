package sojourn.bench;

import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationKey;

/** An operation that completes once somebody has marked it ready, or is forced to. */
final class Operation extends DelayedOperation {
    static final long TIMEOUT_MS = 30_000;

    private final Ended ended;
    private volatile boolean ready = false;

    Operation(Ended ended) {
        super(TIMEOUT_MS);
        this.ended = ended;
    }

    void markReady() {
        ready = true;
    }

    @Override
    public boolean tryComplete() {
        return ready && forceComplete();
    }

    @Override
    public void onComplete() {
        ended.completed++;
    }

    @Override
    public void onExpiration() {
        ended.expired++;
    }

    /** How the operations ended; only the playing thread completes, nothing expires in a run. */
    static final class Ended {
        int completed = 0;
        int expired = 0;
    }

    /** What an operation waits on; a string hashes once, as Python's does. */
    record Key(String label) implements DelayedOperationKey {
        @Override
        public String keyLabel() {
            return label;
        }

        @Override
        public int hashCode() {
            return label.hashCode();
        }
    }
}
