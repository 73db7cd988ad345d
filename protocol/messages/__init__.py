"""One module per API: its request and response, each one dataclass for all versions.

Names of classes and fields are Kafka's (fields in snake_case), so that a search finds them in both
houses, and so are the defaults. A field has no default where forgetting it would be a bug; the
schema's default of such a field is its type's zero. A tagged structure of an answer, which Kafka
leaves out when all its fields have their defaults, is None when it is left out. `error_code` is a
plain int16: codes that this broker does not know must travel too. The modules hold declarations and
nothing else; what a message means is written in the handlers, and how it travels in
`protocol.kafka`.
"""
