"""Builds and reads record batches (magic 2), whole or with one thing wrong."""
import gzip
import struct
import time

from schema import Reader

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ 0x82F63B78 if n & 1 else n >> 1
    TABLE.append(n)
# Positions in a batch, as in Kafka's DefaultRecordBatch.
LENGTH_AT, EPOCH_AT, MAGIC_AT, CRC_AT, ATTRIBUTES_AT, HEADER_BYTES = 8, 12, 16, 17, 21, 61
COUNT_AT, LAST_DELTA_AT = 57, 23


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def signed_varint(number):
    raw = (number << 1) ^ (number >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(value):
    return signed_varint(-1) if value is None else signed_varint(len(value)) + value


def record(offset_delta, value, key=None, headers=(), timestamp_delta=0, attributes=0):
    body = bytes([attributes]) + signed_varint(timestamp_delta) + signed_varint(offset_delta) + sized(key) + sized(value)
    body += signed_varint(len(headers))
    for name, content in headers:
        body += sized(name.encode()) + sized(content)
    return signed_varint(len(body)) + body


def now_ms():
    return int(time.time() * 1000)


def batch(values, base_offset=0, attributes=0, magic=2, timestamp_ms=None, producer_id=-1, producer_epoch=-1, sequence=-1,
          last_delta=None, count=None, length=None, records=None, compress=None, crc=None, max_timestamp_ms=None):
    """A batch of `values`; each other argument overrides one field. The CRC fits unless `crc` is given."""
    timestamp_ms = now_ms() if timestamp_ms is None else timestamp_ms
    if records is None:
        records = b"".join(record(i, v) for i, v in enumerate(values))
    if compress == "gzip":
        records, attributes = gzip.compress(records), attributes | 1
    body = struct.pack(">hiqqqhii", attributes, len(values) - 1 if last_delta is None else last_delta, timestamp_ms,
                       timestamp_ms if max_timestamp_ms is None else max_timestamp_ms, producer_id, producer_epoch, sequence,
                       len(values) if count is None else count) + records
    head = struct.pack(">qiibI", base_offset, 9 + len(body) if length is None else length, -1, magic,
                       crc32c(body) if crc is None else crc)
    return head + body


def batches(data):
    """The whole batches in a fetch's records, as dictionaries; a cut one at the end is left out."""
    out, at = [], 0
    while data and at + HEADER_BYTES <= len(data):
        base_offset, length, epoch, magic, crc = struct.unpack_from(">qiibI", data, at)
        end = at + 12 + length
        if end > len(data):
            break
        attributes, last_delta, first_ms, max_ms, pid, producer_epoch, sequence, count = struct.unpack_from(">hiqqqhii", data, at + 21)
        out.append(dict(base_offset=base_offset, leader_epoch=epoch, magic=magic, crc_fits=crc == crc32c(data[at + 21 : end]),
                        attributes=attributes, last_offset=base_offset + last_delta, first_timestamp_ms=first_ms, max_timestamp_ms=max_ms,
                        producer_id=pid, producer_epoch=producer_epoch, sequence=sequence, count=count,
                        size_bytes=12 + length, raw=bytes(data[at:end])))
        at = end
    return out


def values_of(one):
    """The values of an uncompressed batch that `batches` returned."""
    reader, values = Reader(one["raw"][HEADER_BYTES:]), []
    for _ in range(one["count"]):
        reader.signed_varint(), reader.take(1), reader.signed_varint(), reader.signed_varint()
        key_bytes = reader.signed_varint()
        reader.take(max(key_bytes, 0))
        value_bytes = reader.signed_varint()
        values.append(None if value_bytes < 0 else bytes(reader.take(value_bytes)))
        for _ in range(reader.signed_varint()):
            reader.take(reader.signed_varint())
            reader.take(max(reader.signed_varint(), 0))
    return values
