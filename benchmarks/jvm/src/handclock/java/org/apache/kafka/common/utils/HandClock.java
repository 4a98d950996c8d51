package org.apache.kafka.common.utils;

/** The time that {@link SystemTime} tells when this folder comes before Kafka's jar. */
public final class HandClock {
    static volatile long nowNs = 0;

    private HandClock() {
    }

    public static void advance(long ms) {
        nowNs += ms * 1_000_000L;
    }
}
