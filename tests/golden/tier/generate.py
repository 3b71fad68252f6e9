"""Lays out one segment as the HDFS plugin of Kafka's 2.8 branch does, byte by byte, out of files that Kafka wrote.

    python3 tests/golden/tier/generate.py     writes the file beside this one; what is there must not change
"""

import base64
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
KAFKAS = HERE.parent / "log-transactions" / "log-transactions-0"
TOPIC_ID = bytes([0xFB] * 16)  # its text begins with "-", as the plugin's may
SEGMENT_ID = bytes(range(16))


def text(uuid):
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


sections = [
    (KAFKAS / "00000000000000000009.index").read_bytes(),
    (KAFKAS / "00000000000000000009.timeindex").read_bytes(),
    (KAFKAS / "leader-epoch-checkpoint").read_bytes(),
    (KAFKAS / "00000000000000000087.snapshot").read_bytes(),
    (KAFKAS / "00000000000000000009.txnindex").read_bytes(),
    (KAFKAS / "00000000000000000009.log").read_bytes(),
]
header = b"\x00"
position = 25
for section in sections:
    header += struct.pack(">i", position)
    position += len(section)
assert len(header) == 25
folder = HERE / f"orders-3-{text(TOPIC_ID)}"
folder.mkdir(exist_ok=True)
(folder / text(SEGMENT_ID)).write_bytes(header + b"".join(sections))
print(folder / text(SEGMENT_ID))
