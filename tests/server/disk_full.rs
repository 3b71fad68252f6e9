//! A full disk: writes are refused with Kafka's code, reading goes on, and so does writing once there is space.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at a process from outside")]

use std::fs;
use std::time::Duration;

use crate::small_disk::SmallDisk;
use crate::support::client::{Client, batch, idempotent_batch, records_of};
use crate::support::process::{Server, ServerPlan};
use crate::support::skip::skip;
use crate::support::wait;
use alluvium::record::batch::crc32c;
use alluvium::wire::error_code::ErrorCode;

/// One idempotent producer to one partition, which tries again what was refused.
struct Writer {
    client: Client,
    partition: i32,
    producer: (alluvium::record::offset::ProducerId, i16),
    sequence: i32,
    /// The hashes of what was acknowledged, by offset.
    acknowledged: Vec<u32>,
}

impl Writer {
    fn connect(server: &Server, partition: i32, acknowledged: Vec<u32>) -> Self {
        let led = server.client(0).partitions("t").expect("the server answers").expect("it is there");
        let mut client = server.client(led[partition as usize].core);
        let producer = client.init_producer_id().expect("an id");
        Self { client, partition, producer, sequence: 0, acknowledged }
    }

    /// Writes the next record; the error code.
    fn write(&mut self, len_bytes: usize) -> i16 {
        let mut value = format!("{} {} ", self.producer.0.0, self.sequence).into_bytes();
        value.resize(len_bytes, b'.');
        let hash = crc32c(&value);
        let records = idempotent_batch(self.producer, self.sequence, &[value]);
        let produced = self.client.produce("t", self.partition, -1, &records).expect("the server answers");
        if produced.error_code == 0 {
            assert_eq!(produced.base_offset, self.acknowledged.len() as i64, "partition {}", self.partition);
            self.acknowledged.push(hash);
            self.sequence += 1;
        }
        produced.error_code
    }

    /// Everything acknowledged is there, and nothing else.
    fn check(&mut self, when: &str) {
        let read = self.client.read_from("t", self.partition, 0);
        let read = read.unwrap_or_else(|error| panic!("{when}: partition {}: {error}", self.partition));
        let found: Vec<u32> = read.iter().map(|record| crc32c(&record.value)).collect();
        assert!(
            found == self.acknowledged,
            "{when}: partition {}: {} of {}",
            self.partition,
            found.len(),
            self.acknowledged.len()
        );
        assert!((0..).zip(&read).all(|(offset, record)| record.offset == offset), "{when}");
        // From the middle too, by whatever index there is.
        for offset in (0..found.len()).step_by(7) {
            let fetched = self.client.fetch("t", self.partition, offset as i64, 1).expect("the server answers");
            let records = records_of(&fetched.records);
            let first = records.iter().find(|record| record.offset == offset as i64);
            assert_eq!(first.map(|record| crc32c(&record.value)), Some(found[offset]), "{when}: offset {offset}");
        }
    }
}

/// Writes of several sizes until all partitions are refused.
fn fill(writers: &mut [Writer], context: &str) {
    for writer in writers {
        for len_bytes in [300_000, 60_000, 1000] {
            let mut refused = 0;
            for _ in 0..60_000 {
                let code = writer.write(len_bytes);
                if code != 0 {
                    assert_eq!(code, ErrorCode::KafkaStorageError.code(), "{context}: {len_bytes} bytes");
                    refused += 1;
                    if refused == 3 {
                        break;
                    }
                }
            }
            assert_eq!(refused, 3, "{context}: the disk fills up");
        }
    }
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    for durability in ["segment", "os"] {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let Some(disk) = SmallDisk::tmpfs(folder.path()) else {
            return skip("a full disk", "this user may not mount in a namespace of its own (unshare --mount)");
        };
        let filler = disk.reach("filler");
        fs::write(&filler, vec![1; 16 << 20]).expect("space");
        let mut plan = ServerPlan::new(&folder.path().join("data")).flags(&format!("--durability {durability}"));
        plan.wrapper = disk.wrapper();
        let server = plan.start();
        let code = server.client(0).create_topic("t", 2, &[("segment.bytes", "1048576")]);
        assert_eq!(code.expect("the server answers"), 0);
        let mut writers: Vec<Writer> =
            (0..2).map(|partition| Writer::connect(&server, partition, Vec::new())).collect();
        fill(&mut writers, durability);
        let full: usize = writers.iter().map(|writer| writer.acknowledged.len()).sum();
        writers.iter_mut().for_each(|writer| writer.check("full"));
        // Answered, whatever the answer: an operator is not left waiting.
        let made_when_full = server.client(1).create_topic("more", 2, &[]).expect("the server answers");
        fs::remove_file(&filler).expect("the filler is there");
        for writer in &mut writers {
            wait::until("writing goes on once there is space", Duration::from_secs(20), || {
                (writer.write(60_000) == 0).then_some(())
            });
            for _ in 0..20 {
                assert_eq!(writer.write(60_000), 0, "{durability}: there is space");
            }
            writer.check("with space again");
        }
        let more = server.client(0).partitions("more").expect("the server answers");
        println!("{durability}: the topic made on the full disk, with space again: {more:?}");
        println!("{durability}: {full} records until the disk was full; creating a topic then: error {made_when_full}");
        assert!(server.log_count("the disk is full") > 0, "{}", server.log());
        server.kill();

        let kept: Vec<Vec<u32>> = writers.into_iter().map(|writer| writer.acknowledged).collect();
        let server = plan.start();
        let mut writers: Vec<Writer> =
            (0..).zip(kept).map(|(partition, kept)| Writer::connect(&server, partition, kept)).collect();
        writers.iter_mut().for_each(|writer| writer.check("after kill -9"));
        if made_when_full == 0 {
            // A topic that was made on the full disk, and said to be there.
            let led = server.client(0).partitions("more").expect("the server answers").expect("it is there");
            for (partition, led) in (0..).zip(led) {
                let records = batch(&[b"at last".to_vec()]);
                let produced = server.client(led.core).produce("more", partition, -1, &records);
                assert_eq!(produced.expect("the server answers").error_code, 0, "{durability}: more-{partition}");
            }
        }
        fill(&mut writers, durability);
        writers.iter_mut().for_each(|writer| writer.check("full again"));
        let ended = server.stop();
        println!("{durability}: a stop with a full disk: {}", ended.status);
        assert!(!ended.log.contains("panicked"), "{}", ended.log);

        // A start needs no space to serve what is there.
        let kept: Vec<Vec<u32>> = writers.into_iter().map(|writer| writer.acknowledged).collect();
        match plan.try_start() {
            Ok(server) => {
                for (partition, kept) in (0..).zip(kept) {
                    Writer::connect(&server, partition, kept).check("after a stop with a full disk");
                }
                server.stop();
            }
            Err(ended) => panic!("{durability}: no start with a full disk: {}", ended.log),
        }
    }
}
