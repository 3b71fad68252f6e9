"""The raw prober: good, odd and bad requests, byte by byte, each with the answer that a real Kafka 4.4.0 broker gives.

After each case two healthy connections must be served. The answers were taken from the real broker with --server kafka;
where alluvium is meant to answer otherwise, the case asks `probe.is_kafka` and says why.
"""
import os
import sys

import probe
import frames
import handshake
import topics
import groups
import conversions
import produce
import fetch
import delete_records
import list_offsets
import idempotence
import offsets
import versions
import recompress
import log_dirs
import transactions
import produce_order
import coordinator_frames

if __name__ == "__main__":
    arguments = probe.suite.arguments()
    arguments.add_argument("--server", choices=["alluvium", "kafka"], default=os.environ.get("SERVER", "alluvium"), help="whose answers to expect")
    sys.exit(probe.suite.main(probe.Probe, probe.Probe.healthy, arguments))
