package sojourn.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** Processor time of this process: all threads, the collector's and the compiler's too. */
final class Cpu {
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Cpu() {
    }

    static long ns() {
        return PROCESS.getProcessCpuTime();
    }
}
