"""Functions that compiled codecs call for rare and for wrong values.

Varints here are unsigned, base 128, low bits first; a compact length is stored plus one, 0 for
null (KIP-482). The fast path, one byte, is in the generated code; these functions are called with
the position of that first byte. Nothing here allocates from a size that was only announced.
"""

from typing import NoReturn

from protocol.errors import DecodeError, EncodeError

# Kafka's generated readers refuse longer strings, on the wire and when writing.
STRING_BYTES_MAX = 0x7FFF
# Bound on the elements of all arrays of one message, and on its unknown tagged fields. It is for
# hostile frames: three bytes can become an object and a list of 120, and half a million of them
# held the loop for 0.45 s (docs/decisions/0010-compiled-codecs.md). Kafka has no such bound; this
# one leaves room for a Fetch of 100,000 partitions.
ELEMENTS_MAX = 200_000


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Return the number at `position`, at most 32 bits wide, and the position behind it.

    Raises DecodeError if it is longer than 5 bytes, IndexError if the buffer ends inside it.
    """
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    # Unrolled: half the time of a loop, and most sizes of record batches take two or three bytes.
    byte = buffer[position + 1]
    value += (byte << 7) - 0x80
    if byte < 0x80:
        return value, position + 2
    byte = buffer[position + 2]
    value += (byte << 14) - 0x4000
    if byte < 0x80:
        return value, position + 3
    byte = buffer[position + 3]
    value += (byte << 21) - 0x20_0000
    if byte < 0x80:
        return value, position + 4
    byte = buffer[position + 4]
    if byte < 0x10:
        return value + (byte << 28) - 0x1000_0000, position + 5
    if byte < 0x80:
        raise DecodeError(f"varint at position {position} exceeds 32 bits")
    raise DecodeError(f"varint at position {position} is longer than 5 bytes")


def read_string_size(buffer: memoryview, position: int, where: str) -> tuple[int, int]:
    """Return the stored size of a compact string, that is plus one, and the position behind it."""
    stored, position = read_uvarint(buffer, position)
    if stored == 0:
        refuse_null(where)
    if stored - 1 > STRING_BYTES_MAX:
        raise DecodeError(f"string field {where} had invalid length {stored - 1}")
    return stored, position


def refuse_null(where: str) -> NoReturn:
    """Refuse null in a field that cannot be null, in Kafka's words."""
    raise DecodeError(f"non-nullable field {where} was serialized as null")


def refuse_size(size: int, where: str, remaining: int) -> NoReturn:
    """Refuse a negative size, or one that reaches beyond the end."""
    if size == -1:
        refuse_null(where)
    if size < 0:
        raise DecodeError(f"field {where} had invalid length {size}")
    raise DecodeError(
        f"Error reading {where}: {size} bytes are announced, but there are only {remaining} bytes "
        "remaining."
    )


def refuse_count(count: int, where: str, remaining: int) -> NoReturn:
    """Refuse an array that is negative, larger than what is left, or beyond ELEMENTS_MAX."""
    if count == -1:
        refuse_null(where)
    if count < 0:
        raise DecodeError(f"array field {where} had invalid length {count}")
    raise DecodeError(
        f"Tried to allocate a collection of size {count}, but there are only {remaining} bytes "
        f"remaining. (in {where}; all arrays of a message may have {ELEMENTS_MAX} elements)"
    )


def refuse_tag_size(tag: int, where: str, read: int, announced: int) -> NoReturn:
    """Refuse a tagged field whose content is not of the size that stands before it."""
    raise DecodeError(f"tagged field {tag} of {where} has {announced} bytes, {read} were read")


def refuse_tag(tag: int, where: str) -> NoReturn:
    """Refuse the second field of the same tag."""
    raise DecodeError(f"tag {tag} of {where} appears twice")


def read_tag(buffer: memoryview, position: int, limit: int) -> tuple[int, int, int]:
    """Return the tag at `position`, where its content begins, and where it ends."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if size > limit - position:
        refuse_size(size, f"tagged field {tag}", limit - position)
    return tag, position, position + size


def skip_tags(buffer: memoryview, position: int, limit: int, count: int, where: str) -> int:
    """Skip `count` tagged fields and return the position after them."""
    if count > min(limit - position, ELEMENTS_MAX):
        refuse_count(count, f"the tagged fields of {where}", limit - position)
    seen: set[int] = set()
    for _ in range(count):
        tag, _start, position = read_tag(buffer, position, limit)
        if tag in seen:
            refuse_tag(tag, where)
        seen.add(tag)
    return position


def uvarint(value: int) -> bytes:
    """Return `value` as an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def check_string(encoded: bytes, where: str) -> None:
    """Refuse to write a string that a Kafka client would not read."""
    if len(encoded) > STRING_BYTES_MAX:
        raise EncodeError(f"{where} has {len(encoded)} bytes, a string may have {STRING_BYTES_MAX}")


def cut_text(encoded: bytes) -> bytes:
    """Return a text for people, cut to what a Kafka client reads: it quotes what a client sent."""
    if len(encoded) <= STRING_BYTES_MAX:
        return encoded
    end = "…".encode()
    return encoded[: STRING_BYTES_MAX - len(end)].decode(errors="ignore").encode() + end


def check_uuid(value: bytes, where: str) -> None:
    """Refuse to write an id that is not 16 bytes: struct would cut or pad it in silence."""
    if len(value) != 16:
        raise EncodeError(f"{where} has {len(value)} bytes, a uuid has 16")
