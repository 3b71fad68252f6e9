"""ApiVersions: the fallback to version 0, what is advertised, and client names."""
import struct

from probe import *
from suite import true

NEVER_ADVERTISED = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry"}


def fallback(connection, version, body):
    """The reply to a version that the server lacks: version 0, whatever was asked."""
    connection.correlation += 1
    data = struct.pack(">hhih", 18, version, connection.correlation, 6) + b"prober" + body
    connection.send_bytes(struct.pack(">i", len(data)) + data)
    return connection.receive("ApiVersions", 0)


@suite.case("C032-api-versions-v127-falls-back-to-v0")
def _(probe):
    low, high = probe.ranges[18]
    for version, body in ((127, b"\0\x07prober\x041.0\0"), (high + 1, b"\0\x07prober\x041.0\0"), (127, b"\0"), (32767, bytes(50))):
        with probe.connect() as connection:
            reply = fallback(connection, version, body)
            equal(reply["ErrorCode"], UNSUPPORTED_VERSION, f"error for version {version}")
            equal(reply["ApiKeys"], [{"ApiKey": 18, "MinVersion": low, "MaxVersion": high}], "rows")
            again = connection.call("ApiVersions", high, {"ClientSoftwareName": "prober", "ClientSoftwareVersion": "1.0"})
            equal(again["ErrorCode"], OK, "the version from the list")
            true(connection.call("Metadata", 4, {"Topics": []})["Brokers"], "the connection is of use afterwards")


@suite.case("api-versions-same-rows-in-every-version")
def _(probe):
    low, high = probe.ranges[18]
    equal(low, 0, "the lowest version")
    with probe.connect() as connection:
        for version in range(low, high + 1):
            reply = connection.call("ApiVersions", version, {"ClientSoftwareName": "prober", "ClientSoftwareVersion": "1.0"} if version >= 3 else {})
            equal(reply["ErrorCode"], OK, f"error of version {version}")
            equal({r["ApiKey"]: (r["MinVersion"], r["MaxVersion"]) for r in reply["ApiKeys"]}, probe.ranges, f"rows of version {version}")


@suite.case("api-versions-is-no-must")
def _(probe):
    with probe.connect() as connection:
        true(connection.call("Metadata", 9, {"Topics": []})["Brokers"], "Metadata first on a connection")


@suite.case("api-versions-client-names")
def _(probe):
    for name, version, want in (("prober", "1.0", OK), ("", "1.0", INVALID_REQUEST), ("prober", "", INVALID_REQUEST), ("a b", "1", INVALID_REQUEST),
                                ("-a", "1", INVALID_REQUEST), ("a.b-c", "1-2.3", OK)):
        with probe.connect() as connection:
            reply = connection.call("ApiVersions", 3, {"ClientSoftwareName": name, "ClientSoftwareVersion": version})
            equal(reply["ErrorCode"], want, f"error for {name!r} {version!r}")
            true(connection.call("Metadata", 4, {"Topics": []})["Brokers"], "the connection is of use afterwards")


@suite.case("advertised-ranges-are-kafkas")
def _(probe):
    # Older librdkafka sends uncompressed unless Produce is offered from 0, though 0 to 2 are refused.
    needed = {0: (0, 9), 1: (4, 12), 2: (1, 7), 3: (0, 12), 10: (0, 4), 18: (0, 3), 19: (2, 7), 20: (1, 6), 22: (0, 4), 32: (1, 4), 60: (0, 0)}
    for key, (low, high) in needed.items():
        true(key in probe.ranges, f"key {key} is not offered")
        got_low, got_high = probe.ranges[key]
        equal(got_low, low, f"lowest version of key {key}")
        true(got_high >= high, f"highest version of key {key}: {got_high}, at least {high} is needed")
    for key, (low, high) in probe.ranges.items():
        name = next(n for n, k in SCHEMAS.keys.items() if k == key)
        valid = SCHEMAS.messages[f"{name}Request"]["validVersions"].split("-")
        true(high <= int(valid[-1]) and low >= (0 if key == 0 else int(valid[0])), f"{name}: {low} to {high}, Kafka has {valid}")
    for key, name in NEVER_ADVERTISED.items():
        true(key not in probe.ranges, f"{name} is offered")
