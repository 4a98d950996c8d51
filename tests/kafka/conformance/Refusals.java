import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/** Reads "key version request-in-hex" lines; answers each with Kafka's own refusal in hex. */
public class Refusals {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", -1);
            short version = Short.parseShort(parts[1]);
            String said;
            try {
                ApiKeys key = ApiKeys.forId(Short.parseShort(parts[0]));
                ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(parts[2]));
                AbstractRequest request = AbstractRequest.parseRequest(key, version, body).request;
                AbstractResponse refused = request.getErrorResponse(0, new PolicyViolationException("x"));
                ByteBuffer out = MessageUtil.toByteBuffer(refused.data(), version);
                byte[] bytes = new byte[out.remaining()];
                out.get(bytes);
                said = HexFormat.of().formatHex(bytes);
            } catch (Throwable error) {
                said = "error " + error;
            }
            System.out.println(said);
        }
    }
}
