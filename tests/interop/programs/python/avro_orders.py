"""Avro records by a schema registry: confluent-kafka's serializer and deserializer.

python avro_orders.py write FIELDS FIRST COUNT    with BROKER and REGISTRY in the environment
python avro_orders.py read COUNT

FIELDS are the schema's, as JSON. A refused schema ends the program with the registry's text.
"""

import json
import os
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

TOPIC = "orders"
VALUE = SerializationContext(TOPIC, MessageField.VALUE)


def write(registry: SchemaRegistryClient, fields: list, first: int, count: int) -> None:
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    packed = AvroSerializer(registry, schema)
    producer = Producer({"bootstrap.servers": os.environ["BROKER"]})
    for number in range(first, first + count):
        order = {"id": number, "customer": "ann"} if len(fields) > 1 else {"id": number}
        producer.produce(TOPIC, packed(order, VALUE), partition=0)
    if producer.flush(60):
        sys.exit("not all was acknowledged")


def read(registry: SchemaRegistryClient, count: int) -> None:
    unpacked = AvroDeserializer(registry)
    consumer = Consumer({"bootstrap.servers": os.environ["BROKER"], "group.id": "orders"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found = []
    while len(found) < count:
        message = consumer.poll(60)
        if message is None or message.error():
            sys.exit(f"{len(found)} of {count} were read: {message and message.error()}")
        found.append(unpacked(message.value(), VALUE))
    consumer.close()
    print(json.dumps(found))


client = SchemaRegistryClient({"url": os.environ["REGISTRY"]})
if sys.argv[1] == "write":
    write(client, json.loads(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
else:
    read(client, int(sys.argv[2]))
