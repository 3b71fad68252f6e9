"""HDFS with Kerberos: a keytab, tickets that end while the server runs, a KDC that hangs."""
import os
import re
import time

from broker import SEGMENT_RECORDS, Writer
from stage import started, suite
from suite import true


def by_keytab(hdfs):
    return ["--hdfs-principal", "alluvium@EXAMPLE.COM", "--hdfs-keytab", os.path.join(hdfs.folder, "service.keytab")]


def tickets_of(hdfs):
    """How many tickets this side has asked the KDC for."""
    with open(os.path.join(hdfs.folder, "trace"), errors="replace") as trace:
        return trace.read().count("Getting initial credentials")


def broker_of(stage, hdfs, *flags, **options):
    environment = {"KRB5_CONFIG": os.path.join(hdfs.folder, "krb5.conf"), "KRB5CCNAME": f"FILE:{hdfs.folder}/no-ticket",
                   "KRB5_TRACE": os.path.join(hdfs.folder, "trace")}
    return stage.broker("--hadoop-conf", hdfs.conf, *flags, hdfs=hdfs, environment=environment, deadline_ms=10_000, **options)


@suite.case("kerberos")
def _(stage):
    """Copies and reads with a keytab; a wrong principal, no keytab file and no Kerberos at all are a sentence each."""
    hdfs = stage.cluster("kerberos", "dfs.permissions.enabled=false", KERBEROS="1", DATANODES="1", REPLICATION="1")
    keytab = os.path.join(hdfs.folder, "service.keytab")
    for flags, words in ((["--hdfs-principal", "nobody@EXAMPLE.COM", "--hdfs-keytab", keytab], "nobody@EXAMPLE.COM|--hdfs-keytab"),
                         (["--hdfs-principal", "alluvium@EXAMPLE.COM", "--hdfs-keytab", keytab + ".not-there"], "not-there"),
                         ([], "Kerberos|--hdfs-keytab")):
        refused = broker_of(stage, hdfs, *flags)
        said = refused.command("tier", "check", "--tier", refused.tier, *refused.flags, fails=True)
        true(re.search(words, said), f"{flags}: {said}")
        print("  ", said.strip().splitlines()[-1][:300], flush=True)
    broker, writer = started(stage, broker=broker_of(stage, hdfs, *by_keytab(hdfs)))
    writer.write(4 * SEGMENT_RECORDS)
    broker.wait_local_gone(2 * SEGMENT_RECORDS)
    writer.read_all()
    broker.stop()
    true(" 0 problems" in broker.verify(), "verify")


@suite.case("kerberos-tickets")
def _(stage):
    """Tickets of half a minute: they are renewed while the server runs. A KDC that hangs holds up nothing but the tier."""
    hdfs = stage.cluster("tickets", "dfs.permissions.enabled=false", "hadoop.kerberos.min.seconds.before.relogin=1", KERBEROS="1", TICKET_SECONDS="30",
                         DATANODES="1", REPLICATION="1")
    broker = broker_of(stage, hdfs, *by_keytab(hdfs), cores=2).start()
    broker.create(partitions=2)
    one, other = writers = [Writer(broker, partition) for partition in range(2)]
    for writer in writers:
        writer.write(2 * SEGMENT_RECORDS)
        broker.wait_copied(SEGMENT_RECORDS - 1, partition=writer.partition)
    ended_at = time.monotonic() + 33
    one.until(lambda: time.monotonic() > ended_at, "the tickets have ended", 90, pause_s=0.1)
    # A new connection wants a ticket that is good now.
    tickets = tickets_of(hdfs)
    hdfs.control("kill-nn")
    hdfs.control("start-nn")
    hdfs.control("wait")
    for writer in writers:
        before = writer.end
        writer.write(2 * SEGMENT_RECORDS)
        broker.wait_copied(before, partition=writer.partition)
        writer.read_all()
    print(f"   {tickets} tickets, then {tickets_of(hdfs)};", one.latency(), flush=True)
    true(tickets_of(hdfs) > tickets, "a ticket was asked for anew")
    broker.kill()
    hdfs.control("hang-kdc")
    try:
        # It starts all the same, and the client of HDFS waits for the KDC.
        broker.start()
        for writer in writers:
            writer.slowest_produce_s = writer.slowest_fetch_s = 0.0
            writer.until(lambda: re.search("the tier does not answer|the tier's work on a partition failed", broker.log()), "the log says that the tier is away", 60)
            writer.write(3 * SEGMENT_RECORDS)
            true(max(writer.slowest_produce_s, writer.slowest_fetch_s) < 1, f"while the KDC hangs: {writer.latency()}")
            true(broker.offset(-4, writer.partition) <= broker.offset(-5, writer.partition) + 1, "nothing local goes that the tier has not")
    finally:
        hdfs.control("cont-kdc")
    for writer in writers:
        broker.wait_copied(writer.end - 2 * SEGMENT_RECORDS, partition=writer.partition)
        writer.read_all()
        print("   with a KDC that hung:", writer.latency(), flush=True)
    broker.stop()
    true(" 0 problems" in broker.verify(), "verify")
