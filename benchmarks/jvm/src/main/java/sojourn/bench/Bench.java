package sojourn.bench;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * Runs one measurement of Kafka's own timer or purgatory and prints it as one line of JSON.
 *
 * <p>Called as {@code java sojourn.bench.Bench WORKLOAD name=value ...}; benchmarks/jvm.py does so.
 */
public final class Bench {
    private Bench() {
    }

    public static void main(String[] args) throws Exception {
        Options options = new Options(args);
        Row row = switch (args[0]) {
            case "request-timeouts" -> new RequestTimeouts(options).measure();
            case "purgatory" -> new PurgatoryShape(options).measure();
            case "one-key" -> new OneKey(options).measure();
            case "growth" -> new Growth(options).measure();
            case "memory" -> new Memory(options).measure();
            case "lateness" -> new Lateness(options).measure();
            default -> throw new IllegalArgumentException("no such workload: " + args[0]);
        };
        row.put("runtime", "Java " + System.getProperty("java.version") + ", " + collectors());
        System.out.println(row);
        System.exit(0); // the executor threads of Kafka's timers are not daemons
    }

    private static String collectors() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
            .map(GarbageCollectorMXBean::getName)
            .collect(Collectors.joining(" + "));
    }

    /** The name=value arguments. */
    static final class Options {
        private final Map<String, String> values = new HashMap<>();

        Options(String[] args) {
            for (int i = 1; i < args.length; i++) {
                int equals = args[i].indexOf('=');
                values.put(args[i].substring(0, equals), args[i].substring(equals + 1));
            }
        }

        String text(String name) {
            if (!values.containsKey(name))
                throw new IllegalArgumentException("missing argument " + name + "=...");
            return values.get(name);
        }

        int number(String name) {
            return Integer.parseInt(text(name));
        }

        boolean flag(String name) {
            return Boolean.parseBoolean(text(name));
        }
    }
}
