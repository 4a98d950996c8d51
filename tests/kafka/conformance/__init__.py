"""One script of wire requests, run against a real Kafka and against ours.

    scenarios/*   what is asked, in small named steps
    world.py      whom it is asked: our cluster, or a real one (real.py)
    exchange.py   one connection: fields in, plain values out
    normal.py     what must differ is made equal, each rule with its reason
    recording.py  what the real Kafka answered, kept in recordings/
    compare.py    field by field; table.py reads docs/kafka.md: where we differ on purpose

`python -m tests.kafka.conformance record` records both versions anew; it needs Java and
Maven. `python -m tests.kafka.conformance compare` prints every difference.
"""
