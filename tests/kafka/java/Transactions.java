// What Kafka's own Java client does with transactions; prints a line for each thing it sees.
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

public class Transactions {
    static String servers;
    static final TopicPartition PLACE = new TopicPartition("t", 0);

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        ends();
        offsets();
        fencing();
        described();
        newerProtocol();
    }

    static Map<String, Object> settings(Object... more) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", servers);
        for (int at = 0; at < more.length; at += 2) settings.put((String) more[at], more[at + 1]);
        return settings;
    }

    static KafkaProducer<String, String> producer(String id) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            settings("transactional.id", id), new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static List<String> read(String level) {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                settings("isolation.level", level), new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(PLACE));
            consumer.seekToBeginning(List.of(PLACE));
            long end = consumer.endOffsets(List.of(PLACE)).get(PLACE);
            List<String> values = new ArrayList<>();
            while (consumer.position(PLACE) < end)
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100)))
                    values.add(record.value());
            return values;
        }
    }

    static void ends() throws Exception {
        try (KafkaProducer<String, String> producer = producer("ends")) {
            for (String value : List.of("a", "b", "c")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("t", 0, null, value)).get();
                producer.send(new ProducerRecord<>("t", 1, null, value)).get();
                if (value.equals("b")) producer.abortTransaction();
                else producer.commitTransaction();
            }
        }
        System.out.println("committed " + read("read_committed"));
        System.out.println("all " + read("read_uncommitted"));
    }

    static void offsets() throws Exception {
        try (KafkaProducer<String, String> producer = producer("offsets");
             Admin admin = Admin.create(settings())) {
            for (long offset : List.of(5L, 9L)) {
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(PLACE, new OffsetAndMetadata(offset)), new ConsumerGroupMetadata("g"));
                if (offset == 5) producer.commitTransaction();
                else producer.abortTransaction();
            }
            System.out.println("offset " + admin.listConsumerGroupOffsets("g")
                .partitionsToOffsetAndMetadata().get().get(PLACE).offset());
        }
    }

    static void fencing() throws Exception {
        KafkaProducer<String, String> first = producer("fencing");
        first.beginTransaction();
        first.send(new ProducerRecord<>("t", 0, null, "of the first")).get();
        try (KafkaProducer<String, String> second = producer("fencing")) {
            try {
                first.commitTransaction();
            } catch (ProducerFencedException | InvalidProducerEpochException error) {
                System.out.println("fenced");
            }
            second.beginTransaction();
            second.send(new ProducerRecord<>("t", 0, null, "of the second")).get();
            second.commitTransaction();
        }
        first.close(Duration.ZERO);
        System.out.println("committed " + read("read_committed"));
    }

    static void described() throws Exception {
        try (KafkaProducer<String, String> producer = producer("open");
             Admin admin = Admin.create(settings())) {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("t", 0, null, "left")).get();
            TransactionDescription open =
                admin.describeTransactions(List.of("open")).description("open").get();
            System.out.println("state " + open.state() + " " + open.topicPartitions());
            Set<String> names = new TreeSet<>();
            for (TransactionListing one : admin.listTransactions().all().get())
                names.add(one.transactionalId());
            System.out.println("listed " + names);
            for (ProducerState state : admin.describeProducers(List.of(PLACE))
                    .partitionResult(PLACE).get().activeProducers())
                if (state.currentTransactionStartOffset().isPresent()) {
                    System.out.println("hangs " + (state.producerId() == open.producerId()));
                    admin.abortTransaction(new AbortTransactionSpec(
                        PLACE, state.producerId(), (short) state.producerEpoch(),
                        Math.max(0, state.coordinatorEpoch().orElse(0)))).all().get();
                }
            long stable = admin.listOffsets(Map.of(PLACE, OffsetSpec.latest()),
                new ListOffsetsOptions(org.apache.kafka.common.IsolationLevel.READ_COMMITTED))
                .partitionResult(PLACE).get().offset();
            long end = admin.listOffsets(Map.of(PLACE, OffsetSpec.latest()))
                .partitionResult(PLACE).get().offset();
            System.out.println("stable " + (stable == end));
            producer.abortTransaction();
        }
    }

    static void newerProtocol() {
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                settings("group.id", "newer", "group.protocol", "consumer"),
                new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("t"));
            for (int round = 0; round < 100; round++) consumer.poll(Duration.ofMillis(100));
            System.out.println("polls for ever");
        } catch (UnsupportedVersionException error) {
            System.out.println("unsupported");
        }
    }
}
