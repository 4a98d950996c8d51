import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Members of the consumer protocol: they share, commit, match topics, and own their names. */
public class ConsumerGroups {
    static String servers;
    static int read;

    static Consumer<String, String> consumer(String group, String instance) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (instance != null) {
            settings.put("group.instance.id", instance);
        }
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    @SafeVarargs
    static void until(BooleanSupplier condition, Consumer<String, String>... consumers) {
        long end = System.nanoTime() + 120_000_000_000L;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("waited two minutes");
            }
            for (Consumer<String, String> one : consumers) {
                read += one.poll(Duration.ofMillis(20)).count();
            }
        }
    }

    static String shown(Collection<TopicPartition> partitions) {
        return new TreeSet<>(partitions.stream().map(String::valueOf).collect(Collectors.toList()))
            .toString();
    }

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        Consumer<String, String> one = consumer("g", null);
        one.subscribe(List.of("t"));
        until(() -> one.assignment().size() == 4, one);
        System.out.println("alone " + shown(one.assignment()));

        Consumer<String, String> two = consumer("g", null);
        two.subscribe(List.of("t"));
        until(() -> one.assignment().size() == 2 && two.assignment().size() == 2, one, two);
        System.out.println("shared " + one.assignment().size() + " " + two.assignment().size());
        try (Admin admin = Admin.create(settings)) {
            var group = admin.describeConsumerGroups(List.of("g")).all().get().get("g");
            System.out.println("state " + group.groupState().name() + " type " + group.type().name());
        }

        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 8; number++) {
                producer.send(new ProducerRecord<>("t", number % 4, null, "value")).get();
            }
        }
        until(() -> read == 8, one, two);
        System.out.println("read " + read);
        one.commitSync();
        two.commitSync();
        one.close();
        until(() -> two.assignment().size() == 4, two);
        System.out.println("left alone " + shown(two.assignment()));
        boolean nothing = two.committed(two.assignment()).values().stream()
            .allMatch(offset -> offset.offset() == 2);
        System.out.println("nothing again " + (nothing && read == 8));
        two.close();

        Consumer<String, String> regex = consumer("r", null);
        regex.subscribe(new SubscriptionPattern("t.*"));
        until(() -> regex.assignment().size() == 4, regex);
        System.out.println("regex " + shown(regex.assignment()));
        regex.close();

        Consumer<String, String> owner = consumer("s", "i");
        owner.subscribe(List.of("t"));
        until(() -> owner.assignment().size() == 4, owner);
        Consumer<String, String> other = consumer("s", "i");
        other.subscribe(List.of("t"));
        try {
            until(() -> false, other);
        } catch (RuntimeException error) {
            System.out.println("static " + error.getClass().getSimpleName());
        }
        other.close();
        owner.close();
        try (Admin admin = Admin.create(settings)) {
            // Its owner may come back, so the static member stays for a session.
            admin.removeMembersFromConsumerGroup(
                "s", new org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions(
                    List.of(new org.apache.kafka.clients.admin.MemberToRemove("i")))).all().get();
            List<String> groups = new ArrayList<>(List.of("g", "r", "s"));
            admin.deleteConsumerGroups(groups).all().get();
            System.out.println("deleted " + groups);
        }
    }
}
