"""The threads that speak to HDFS, one a core: where they stand, and what goes on when one of them does not."""
import ctypes
import os
import re
import time

from broker import SEGMENT_RECORDS, TOPIC, FetchError, Writer, fetch, read_all
from stage import started, suite
from suite import equal, eventually, true

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
# MiB: so long that a read in its middle does not come to its end; and that neither the client nor sockets take all of one.
LONG, LONGEST = 4, 40


class Stopped:
    """A thread of a server stands still, as a debugger stops it; the others go on."""

    def __init__(self, broker, name):
        self.thread = threads_of(broker)[name]

    def __enter__(self):
        trace(PTRACE_SEIZE, self.thread)
        trace(PTRACE_INTERRUPT, self.thread)
        os.waitpid(self.thread, WALL)

    def __exit__(self, *_):
        trace(PTRACE_DETACH, self.thread)


def trace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        raise AssertionError(f"ptrace: {os.strerror(ctypes.get_errno())}; may this user trace its own processes?")


def threads_of(broker):
    """The threads of a server, by their names."""
    folder, found = f"/proc/{broker.process.pid}/task", {}
    for thread in os.listdir(folder):
        with open(f"{folder}/{thread}/comm") as name:
            found[name.read().strip()] = int(thread)
    return found


def core_of(broker, partition):
    return broker.cluster.leader(TOPIC, partition)[1] - broker.port


def fetch_one(broker, partition, offset):
    """Fetches a record that is in HDFS, as long as it takes; says how long that was."""
    began = time.monotonic()
    with broker_connection(broker, partition) as connection:
        while True:
            try:
                found = fetch(connection, TOPIC, partition, offset, bytes_max=1000)
            except FetchError:
                found = []
            took_s = time.monotonic() - began
            if found:
                equal(found[0], offset, "the record")
                return took_s
            true(took_s < 60, f"nothing is read at {offset}")


def broker_connection(broker, partition):
    return Writer(broker, partition).connect()


def two_cores(stage, segments, records, *flags, **options):
    """A server of two cores, a partition on each, and its writer; `segments` of each are in HDFS alone."""
    broker = stage.broker("--hdfs-conf", "dfs.client.socket-timeout=60000", *flags, cores=2, **options).start()
    broker.create(partitions=2, segment_bytes=records * (1 << 20) // SEGMENT_RECORDS)
    writers = {core_of(broker, partition): Writer(broker, partition) for partition in range(2)}
    equal(sorted(writers), [0, 1], "the cores that lead")
    for writer in writers.values():
        writer.write(segments * records + 1)
        broker.wait_local_gone((segments - 1) * records, partition=writer.partition)
    return broker, writers


@suite.case("companion-stopped")
def _(stage):
    """One core's thread stands still for longer than a call may take: the other core copies and reads, and its own goes on later."""
    broker, writers = two_cores(stage, 8, SEGMENT_RECORDS, deadline_ms=6000, watchdog_ms=3000)
    stands_at_its_place(broker)
    for core in (1, 0):
        still, other = writers[core], writers[1 - core]
        # To a file's end: that connection is kept for both, while it may be used again.
        fetch_one(broker, still.partition, (1 + core) * SEGMENT_RECORDS - 1)
        with Stopped(broker, f"tier-{core}"):
            began = time.monotonic()
            for segment in range(2, 7):
                fetch_one(broker, other.partition, (segment + core) * SEGMENT_RECORDS - SEGMENT_RECORDS // 2)
            took_s, before = time.monotonic() - began, other.end
            met = len(re.findall("a read of HDFS failed.*--tier-watchdog", broker.log()))
            print(f"   core {1 - core}: five cold reads in {took_s:.1f} s, {met} ended by the watchdog", flush=True)
            true(took_s < 20, "each is made again at once")
            other.write(4 * SEGMENT_RECORDS)
            broker.wait_copied(before + 2 * SEGMENT_RECORDS, partition=other.partition)
            broker.wait_local_gone(before + 2 * SEGMENT_RECORDS, partition=other.partition)
            # Its own core serves what it has, and keeps it.
            copied, local_from, hung = broker.offset(-5, still.partition), broker.offset(-4, still.partition), still.end
            still.write(3 * SEGMENT_RECORDS)
            still.read_all(hung)
            broker.says("the thread that speaks to HDFS hangs", 30)
            equal((broker.offset(-5, still.partition), broker.offset(-4, still.partition)), (copied, local_from), "what its tier has, and where its local log begins")
        broker.log_from = os.path.getsize(broker.log_path)
        for writer in writers.values():
            broker.wait_copied(writer.end - SEGMENT_RECORDS, partition=writer.partition)
            writer.read_all()
    # By the names of Kafka's metrics, each core its own.
    figures = r"the tier's figures core={} RemoteCopyBytes=\d{{7,}} RemoteCopyRequests=\d+ RemoteCopyErrors=\d+.* RemoteLogMetadataCount=[1-9]"
    for core in (0, 1):
        broker.says(figures.format(core), 40)
    print("  ", "; ".join(f"core {core}: {writer.latency()}" for core, writer in writers.items()), flush=True)
    broker.stop()
    true(" 0 problems" in broker.verify(), "verify")


def stands_at_its_place(broker):
    """Each is on its core's CPU, behind it."""
    threads = threads_of(broker)
    for core in (0, 1):
        own, beside = [f"/proc/{broker.process.pid}/task/{threads[f'{name}-{core}']}" for name in ("core", "tier")]
        equal(read_of(f"{beside}/status", r"Cpus_allowed_list:\s*(\S+)"), read_of(f"{own}/status", r"Cpus_allowed_list:\s*(\S+)"), f"the CPU of tier-{core}")
        nice = [int(read_of(f"{path}/stat", r".*\) (.*)").split()[16]) for path in (own, beside)]
        equal(nice[1], min(nice[0] + 5, 19), f"the priority of tier-{core}, its core's is {nice[0]}")


def read_of(path, pattern):
    with open(path) as file:
        return re.search(pattern, file.read())[1]


@suite.case("companion-leaves-nothing")
def _(stage):
    """A read that does not come to a block's end leaves no connection that another core would wait on."""
    records = LONG * SEGMENT_RECORDS
    broker, writers = two_cores(stage, 5, records, "--tier-memory", "8M", deadline_ms=30_000, watchdog_ms=10_000)
    slowest_s = 0
    for segment in range(4):
        core = segment % 2
        fetch_one(broker, writers[core].partition, segment * records)
        with Stopped(broker, f"tier-{core}"):
            slowest_s = max(slowest_s, fetch_one(broker, writers[1 - core].partition, segment * records))
    print(f"   the slowest read beside a thread that stands still: {slowest_s * 1000:.0f} ms", flush=True)
    true("--tier-watchdog" not in broker.log(), "no read waited for a thread that stood still")
    true(slowest_s < 8, f"the slowest read took {slowest_s:.1f} s")


@suite.case("watchdog")
def _(stage):
    """No DataNode says anything any more: what moves bytes is ended long before its deadline, and made again when they do."""
    broker = stage.broker("--hdfs-conf", "dfs.client.socket-timeout=60000", deadline_ms=60_000, watchdog_ms=2000)
    broker, writer = started(stage, broker=broker, configs={"segment_bytes": LONGEST << 20}, remote_log_manager_copy_max_bytes_per_second=8 << 20)
    records = LONGEST * SEGMENT_RECORDS
    writer.write(records + 10, fetch_each=100)
    broker.wait_local_gone(records // 2)
    writer.write(records + 30, fetch_each=100)
    eventually(lambda: len(re.findall("copying a segment", broker.log())) >= 2, "the second copy has begun", 30)
    for number in (1, 2, 3):
        stage.hdfs.control("hang-dn", number)
    try:
        broker.says(r"no bytes of a write were taken for 2000 ms \(--tier-watchdog\)", 40)
        with broker_connection(broker, 0) as connection:
            began = time.monotonic()
            while "no packet of a read came for 2000 ms (--tier-watchdog)" not in broker.log():
                true(time.monotonic() - began < 40, "a read that stands still is ended by the watchdog")
                try:
                    equal(fetch(connection, TOPIC, 0, records // 3, bytes_max=1000), [], "while no DataNode says anything")
                except FetchError:
                    pass
    finally:
        for number in (1, 2, 3):
            stage.hdfs.control("cont-dn", number)
    stage.hdfs.control("wait")
    broker.wait_copied(2 * records)
    read_all(broker, 0, writer.end)
    print("  ", writer.latency(), flush=True)
    broker.stop()
    true(" 0 problems" in broker.verify(), "verify")
