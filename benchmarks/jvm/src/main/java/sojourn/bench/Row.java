package sojourn.bench;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** One result: named numbers and texts, printed as a JSON object. */
final class Row {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    Row put(String name, Object value) {
        fields.put(name, value);
        return this;
    }

    static double median(double[] values) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        return sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }

    @Override
    public String toString() {
        return fields.entrySet().stream()
            .map(field -> quoted(field.getKey()) + ": " + json(field.getValue()))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    private static String json(Object value) {
        return value instanceof String text ? quoted(text) : String.valueOf(value);
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
