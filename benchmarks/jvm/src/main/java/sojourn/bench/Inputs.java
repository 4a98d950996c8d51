package sojourn.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/** Reads the numbers that benchmarks/inputs.py wrote: every contender gets the same ones. */
final class Inputs {
    private Inputs() {
    }

    static long[] longs(String path) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(path)));
        LongBuffer longs = bytes.order(ByteOrder.nativeOrder()).asLongBuffer();
        long[] values = new long[longs.remaining()];
        longs.get(values);
        return values;
    }
}
