"""Encodes and decodes Kafka's messages by its own descriptors.

The descriptors (common/message/*.json) are read from the kafka-clients jar that scripts/install-test-tools brings, so every
API is known at every version, by another road than the server's generated code. Fields have the descriptors' names:
    encode("MetadataRequest", 9, {"Topics": [{"Name": "t"}]})
A field that is left out has the descriptor's default; a name that no descriptor has is a KeyError.
"""
import glob
import json
import os
import re
import struct
import uuid
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.environ.get("ALLUVIUM_TEST_TOOLS") or os.path.join(HERE, "../../../target/test-tools")
FIXED = {"bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}


def versions(text):
    """"3+" -> (3, 32767), "1-4" -> (1, 4), "none" -> (1, 0), which holds nothing."""
    if not text or text == "none":
        return (1, 0)
    low, _, high = text.partition("-")
    return (int(low[:-1]), 32767) if low.endswith("+") else (int(low), int(high or low))


def holds(text, version):
    low, high = versions(text)
    return low <= version <= high


class Schemas:
    """All descriptors of one jar; `keys` maps an API name such as "Fetch" to its key."""

    def __init__(self):
        jars = glob.glob(os.path.join(TOOLS, "java/libs/kafka-clients-*.jar"))
        if not jars:
            raise SystemExit(f"no kafka-clients jar under {TOOLS}: run scripts/install-test-tools")
        self.messages, self.keys = {}, {}
        with zipfile.ZipFile(jars[0]) as jar:
            for name in jar.namelist():
                if name.startswith("common/message/") and name.endswith(".json"):
                    text = re.sub(r"^\s*//.*$", "", jar.read(name).decode(), flags=re.M)
                    message = json.loads(text)
                    self.messages[message["name"]] = message
                    if message["type"] == "request":
                        self.keys[message["name"][: -len("Request")]] = message["apiKey"]

    def message(self, name):
        message = self.messages[name]
        if "structs" not in message:
            message["structs"] = {s["name"]: s["fields"] for s in message.get("commonStructs", [])}
        return message

    def flexible(self, name, version):
        return holds(self.messages[name].get("flexibleVersions"), version)

    def encode(self, name, version, body):
        message, out = self.message(name), bytearray()
        put_struct(out, message["fields"], body, version, self.flexible(name, version), message["structs"])
        return bytes(out)

    def decode(self, name, version, data):
        """Returns (body, bytes left over)."""
        message, reader = self.message(name), Reader(data)
        body = take_struct(reader, message["fields"], version, self.flexible(name, version), message["structs"])
        return body, len(data) - reader.at


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def default_of(field, structs):
    kind, text = field["type"], field.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in ("bytes", "records"):
        return b""
    if kind == "string":
        return text or ""
    if kind == "uuid":
        return uuid.UUID(int=0)
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "float64":
        return float(text or 0)
    if kind in FIXED:
        return int(str(text), 0) if text else 0
    return {}


def fields_of(field, structs):
    return field.get("fields") or structs[field["type"].removeprefix("[]")]


def element_of(field):
    # A nullable array has elements that are not.
    return {**field, "type": field["type"][2:], "nullableVersions": None}


def put_struct(out, fields, body, version, flexible, structs):
    names = {f["name"] for f in fields}
    for name in body:
        if name not in names:
            raise KeyError(f"no field {name} among {sorted(names)}")
    tagged = []
    for field in fields:
        if not holds(field["versions"], version):
            continue
        value = body.get(field["name"], default_of(field, structs))
        if holds(field.get("taggedVersions"), version):
            if value != default_of(field, structs):
                tagged.append((field, value))
            continue
        put(out, field, value, version, flexible, structs)
    if flexible:
        out += varint(len(tagged))
        for field, value in sorted(tagged, key=lambda pair: pair[0]["tag"]):
            inner = bytearray()
            put(inner, field, value, version, flexible, structs)
            out += varint(field["tag"]) + varint(len(inner)) + inner


def put_length(out, length, flexible, format_):
    """A length, or None for null."""
    if flexible:
        out += varint(0 if length is None else length + 1)
    else:
        out += struct.pack(format_, -1 if length is None else length)


def put(out, field, value, version, flexible, structs):
    kind = field["type"]
    flexible_here = flexible and field.get("flexibleVersions") != "none"
    if kind in FIXED:
        out += struct.pack(">" + FIXED[kind], value)
    elif kind == "uuid":
        out += value.bytes
    elif kind.startswith("[]"):
        put_length(out, None if value is None else len(value), flexible_here, ">i")
        for item in value or []:
            put(out, element_of(field), item, version, flexible, structs)
    elif kind in ("string", "bytes", "records"):
        raw = value.encode() if isinstance(value, str) else value
        put_length(out, None if raw is None else len(raw), flexible_here, ">h" if kind == "string" else ">i")
        out += raw or b""
    else:
        if holds(field.get("nullableVersions"), version):
            out += struct.pack("b", -1 if value is None else 1)
        if value is not None:
            put_struct(out, fields_of(field, structs), value, version, flexible, structs)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if count < 0 or self.at + count > len(self.data):
            raise ValueError(f"{count} bytes wanted at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, format_):
        return struct.unpack(">" + format_, self.take(struct.calcsize(">" + format_)))[0]

    def varint(self):
        shift = value = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def signed_varint(self):
        raw = self.varint()
        return (raw >> 1) ^ -(raw & 1)


def take_struct(reader, fields, version, flexible, structs):
    body, tagged = {}, {}
    for field in fields:
        if not holds(field["versions"], version):
            continue
        if holds(field.get("taggedVersions"), version):
            body[field["name"]] = default_of(field, structs)
            tagged[field["tag"]] = field
        else:
            body[field["name"]] = take(reader, field, version, flexible, structs)
    if flexible:
        for _ in range(reader.varint()):
            tag, size = reader.varint(), reader.varint()
            inner = Reader(reader.take(size))
            if tag in tagged:
                body[tagged[tag]["name"]] = take(inner, tagged[tag], version, flexible, structs)
    return body


def take_length(reader, flexible, format_):
    length = reader.varint() - 1 if flexible else reader.number(format_)
    return None if length < 0 else length


def take(reader, field, version, flexible, structs):
    kind = field["type"]
    flexible_here = flexible and field.get("flexibleVersions") != "none"
    if kind in FIXED:
        return reader.number(FIXED[kind])
    if kind == "uuid":
        return uuid.UUID(bytes=bytes(reader.take(16)))
    if kind.startswith("[]"):
        length = take_length(reader, flexible_here, "i")
        element = element_of(field)
        return None if length is None else [take(reader, element, version, flexible, structs) for _ in range(length)]
    if kind in ("string", "bytes", "records"):
        length = take_length(reader, flexible_here, "h" if kind == "string" else "i")
        if length is None:
            return None
        raw = bytes(reader.take(length))
        return raw.decode() if kind == "string" else raw
    if holds(field.get("nullableVersions"), version) and reader.number("b") < 0:
        return None
    return take_struct(reader, fields_of(field, structs), version, flexible, structs)
