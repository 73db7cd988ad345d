"""The records of ACLs in the metadata log: one says that an ACL exists, the other that it is gone.

They are declared as those of `protocol.metadata_records`, which lists all types. The codes are
Kafka's ResourceType, PatternType, AclOperation and AclPermissionType.

Sources: AccessControlEntryRecord.json and RemoveAccessControlEntryRecord.json, Apache Kafka 4.3.
"""

from protocol.wire import Int8, String, Uuid, message, structure


@message(api_key=18, kind="data", versions=(0, 0), flexible_since=0)
@structure
class AccessControlEntryRecord:
    """An ACL. Its id is this log's own: clients know an ACL by its other fields."""

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(api_key=19, kind="data", versions=(0, 0), flexible_since=0)
@structure
class RemoveAccessControlEntryRecord:
    """The ACL with this id is gone."""

    id: Uuid
