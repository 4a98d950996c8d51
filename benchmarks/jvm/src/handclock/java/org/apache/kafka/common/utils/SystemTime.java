package org.apache.kafka.common.utils;

/**
 * Stands in for Kafka's class of this name, which is what {@code Time.SYSTEM} returns, so that a
 * benchmark can let 30 seconds pass without waiting for them.
 *
 * <p>Only the source of the time is ours. SystemTimer, TimingWheel, TimerTaskList, the DelayQueue
 * and the executor are Kafka's and the JDK's, unchanged; they ask {@code Time.SYSTEM} as they
 * always do. Reading a field is cheaper than reading the system's clock, so Kafka's add is a
 * little faster under this clock than in life. Sojourn's ManualClock has the same advantage.
 */
class SystemTime implements Time {
    private static final SystemTime SYSTEM_TIME = new SystemTime();

    public static SystemTime getSystemTime() {
        return SYSTEM_TIME;
    }

    @Override
    public long milliseconds() {
        return HandClock.nowNs / 1_000_000L;
    }

    @Override
    public long nanoseconds() {
        return HandClock.nowNs;
    }

    @Override
    public void sleep(long ms) {
        HandClock.advance(ms);
    }
}
