//! `alluvium produce`, `consume` and `dump` as processes, against the real server.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at processes from outside")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::process::{Server, ServerPlan, binary};
use crate::support::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PARTITIONS: i32 = 4;

struct Place {
    folder: tempfile::TempDir,
    server: Server,
}

impl Place {
    fn new(topics: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let server = ServerPlan::new(folder.path()).start();
        let mut client = server.client(0);
        for topic in topics {
            assert_eq!(client.create_topic(topic, PARTITIONS, &[]).expect("the server answers"), 0);
        }
        Self { folder, server }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command.args(words).args(["--bootstrap", &format!("127.0.0.1:{}", self.server.port)]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, words: &[&str], input: &[u8]) -> Output {
        run(self.command(words), input)
    }

    /// Standard output of a command that succeeds.
    fn ok(&self, words: &[&str], input: &[u8]) -> Vec<u8> {
        let done = self.run(words, input);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    }

    /// The report of a produce.
    fn produced(&self, words: &[&str], input: &[u8]) -> Value {
        let done = self.run(&[words, &["--output", "json"]].concat(), input);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stderr).expect("a report")
    }

    fn rows(&self, words: &[&str]) -> Vec<Value> {
        json_lines(&self.ok(&[words, &["--exit-at-end", "--format", "json"]].concat(), b""))
    }
}

fn run(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    let writer = thread::spawn(move || {
        // It may end before it has read all.
        let _ = stdin.write_all(&input);
    });
    let done = child.wait_with_output().expect("our own child");
    writer.join().expect("no panic");
    done
}

fn json_lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("text");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn dump(words: &[&str]) -> (bool, Vec<Value>) {
    let mut command = Command::new(binary());
    command.arg("dump").args(words).args(["--output", "json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(Stdio::piped());
    let done = run(command, b"");
    let rows = json_lines(&done.stdout);
    assert!(!rows.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    (done.status.success(), rows)
}

/// Keys, headers, nulls, bytes that are no text, times and partitions: written in each codec, read back, dumped after a
/// clean stop.
#[test]
fn what_is_produced_is_consumed_and_dumped() {
    const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];
    let place = Place::new(&CODECS);
    let record = |number: usize| {
        json!({
            "key": if number.is_multiple_of(5) { Value::Null } else { json!(format!("k{number}")) },
            "value": match number % 3 {
                0 => Value::Null,
                1 => json!({"base64": "/wABgA=="}),
                _ => json!(format!("äöü {number} {}", "x".repeat(number % 300))),
            },
            "headers": [{"key": "a", "value": number.to_string()}, {"key": "a", "value": null}],
            "partition": number as i32 % PARTITIONS,
            "timestamp": 1_700_000_000_000_i64 + number as i64,
        })
    };
    let records: Vec<Value> = (0..1000).map(record).collect();
    let input: String = records.iter().map(|record| format!("{record}\n")).collect();
    for codec in CODECS {
        let words = ["produce", codec, "--format", "json", "--compression", codec, "--batch-bytes", "8K"];
        let report = place.produced(&words, input.as_bytes());
        assert_eq!((&report["records"], &report["retries"]), (&json!(1000), &json!(0)), "{codec}: {report}");
        assert!(report["producer_id"].is_i64(), "{codec}: idempotent by default");
        let rows = place.rows(&["consume", codec]);
        let mut by_partition: BTreeMap<i64, Vec<Value>> = BTreeMap::new();
        for mut row in rows {
            let partition = row["partition"].as_i64().expect("a number");
            let read = by_partition.entry(partition).or_default();
            assert_eq!(row["offset"], read.len(), "{codec}: offsets rise by one");
            let fields = row.as_object_mut().expect("an object");
            for name in ["offset", "topic", "timestamp_type"] {
                fields.remove(name).expect("a field");
            }
            read.push(row);
        }
        for partition in 0..i64::from(PARTITIONS) {
            let written: Vec<_> = records.iter().filter(|record| record["partition"] == partition).cloned().collect();
            assert_eq!(by_partition[&partition], written, "{codec}, partition {partition}");
        }
        let verified = place.ok(&["consume", codec, "--verify", "--output", "json"], b"");
        let verified: Value = serde_json::from_slice(&verified).expect("a report");
        assert_eq!((&verified["records"], &verified["problems"]), (&json!(1000), &json!(0)), "{codec}");
    }
    let Place { folder, server } = place;
    server.stop().assert_clean();
    for codec in CODECS {
        let path = folder.path().join(format!("{codec}-1"));
        let (whole, rows) = dump(&["--print-records", &path.display().to_string()]);
        assert!(whole, "{codec}: {rows:?}");
        let batches = rows.iter().filter(|row| row["kind"] == "batch");
        assert!(batches.clone().count() >= 2, "{codec}: several batches of 8 KiB");
        assert!(
            batches.clone().all(|row| row["codec"] == codec && row["base_sequence"] == row["base_offset"]),
            "{codec}"
        );
        let read: Vec<_> = rows.iter().filter(|row| row["kind"] == "record").collect();
        let written: Vec<_> = records.iter().filter(|record| record["partition"] == 1).collect();
        assert_eq!(read.len(), written.len(), "{codec}");
        for (read, written) in read.iter().zip(written) {
            for name in ["key", "value", "headers", "timestamp"] {
                assert_eq!(read[name], written[name], "{codec}: {read}");
            }
        }
    }
    let (whole, rows) = dump(&[&folder.path().display().to_string()]);
    assert!(whole, "{:?}", rows.iter().find(|row| row["kind"] == "problem"));
    for what in ["segment", "offset_index", "leader_epochs", "partition_metadata", "meta_properties", "catalog"] {
        assert!(rows.iter().any(|row| row["kind"] == "file" && row["what"] == what), "no {what} was dumped");
    }
    // A flipped byte is found and named.
    let path = folder.path().join("lz4-1/00000000000000000000.log");
    let mut bytes = fs::read(&path).expect("a segment");
    let at = bytes.len() - 10;
    bytes[at] ^= 4;
    fs::write(&path, bytes).expect("our own scratch folder");
    let (whole, rows) = dump(&[&path.display().to_string()]);
    assert!(!whole);
    assert!(rows.last().is_some_and(|row| row["whole"] == false && row["problems"] == 1), "{:?}", rows.last());
}

#[test]
fn lines_have_keys_and_places() {
    let place = Place::new(&["lines", "spread"]);
    let report = place.produced(
        &["produce", "lines", "--key-separator", ":", "--null-value", "~", "--partition", "2", "--header", "h=1"],
        b"a:1\nb:~\nplain\n:\nlast:without end",
    );
    assert_eq!(report["partitions"][0]["last_offset"], 4);
    let printed = place
        .ok(&["consume", "lines", "--exit-at-end", "--format", "template", "--template", r"%o %K %k|%S %v|%h\n"], b"");
    let expected = "0 1 a|1 1|h=1\n1 1 b|-1 |h=1\n2 -1 |5 plain|h=1\n3 0 |0 |h=1\n4 4 last|11 without end|h=1\n";
    assert_eq!(String::from_utf8_lossy(&printed), expected);
    let cases: [(&[&str], &str); 6] = [
        (&["--offset", "-2"], "3 4"),
        (&["--offset", "1", "--count", "2"], "1 2"),
        (&["--offset", "latest"], ""),
        (&["--offset", "4"], "4"),
        (&["--partition", "2", "--offset", "3"], "3 4"),
        (&["--partition", "1"], ""),
    ];
    for (words, offsets) in cases {
        let rows = place.rows(&[&["consume", "lines"], words].concat());
        let read: Vec<_> = rows.iter().map(|row| row["offset"].to_string()).collect();
        assert_eq!(read.join(" "), offsets, "{words:?}");
    }
    let until = place.ok(&["consume", "lines", "--partition", "2", "--until", "2"], b"");
    assert_eq!(String::from_utf8_lossy(&until), "1\n\n");
    let refused = place.run(&["consume", "lines", "--partition", "2", "--offset", "9"], b"");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("0 to 5"), "{error}");

    // Without keys, batches go to one partition after another; all of it arrives.
    let lines: String = (0..20_000).map(|number| format!("{number}\n")).collect();
    let report = place.produced(&["produce", "spread", "--batch-bytes", "4K", "--acks", "1"], lines.as_bytes());
    assert_eq!(report["partitions"].as_array().map(Vec::len), Some(PARTITIONS as usize));
    let read = place.ok(&["consume", "spread", "--exit-at-end"], b"");
    let mut read: Vec<u32> =
        String::from_utf8_lossy(&read).lines().map(|line| line.parse().expect("a number")).collect();
    read.sort_unstable();
    assert_eq!(read, (0..20_000).collect::<Vec<_>>());
}

#[test]
fn mistakes_name_the_line_and_what_came_before_is_written() {
    let place = Place::new(&["t"]);
    let cases: [(&[&str], &str, &str); 4] = [
        (&["produce", "t", "--format", "json"], "{\"value\":\"a\"}\n{\"valeu\":1}\n", "line 2"),
        (&["produce", "t", "--format", "json"], "{\"value\":\"b\",\"partition\":9}\n", "has 4"),
        (&["produce", "none"], "a\n", "there is no topic"),
        (&["produce", "t", "--acks", "1", "--idempotent=true"], "a\n", "--acks all"),
    ];
    for (words, input, sentence) in cases {
        let done = place.run(words, input.as_bytes());
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains(sentence), "{words:?}: {error}");
        assert!(!error.contains("panicked"), "{words:?}: {error}");
    }
    assert_eq!(place.ok(&["consume", "t", "--exit-at-end"], b""), b"a\n");
}

/// The server is killed and comes back while lines go on coming: nothing is lost, nothing is there twice.
#[test]
fn an_idempotent_produce_outlives_the_server() {
    let Place { folder, server } = Place::new(&["t"]);
    let port = server.port;
    let place = Place { folder, server };
    let mut child =
        place.command(&["produce", "t", "--batch-bytes", "1K", "--timeout-seconds", "5"]).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let mut give = |range: std::ops::Range<u32>| {
        for number in range {
            writeln!(stdin, "{number}").expect("it reads");
        }
    };
    give(0..2000);
    wait::until("the first records", Duration::from_secs(20), || {
        let led = place.server.client(0).partitions("t").expect("the server answers").expect("it is there");
        (0..).zip(led).find(|(partition, led)| {
            let fetched = place.server.client(led.core).fetch("t", *partition, 0, 1 << 20).expect("the server answers");
            fetched.high_watermark > 0
        })
    });
    let Place { folder, server } = place;
    server.kill();
    give(2000..3000);
    let mut plan = ServerPlan::new(folder.path());
    plan.port = Some(port);
    let place = Place { server: plan.start(), folder };
    give(3000..5000);
    drop(stdin);
    let done = child.wait_with_output().expect("our own child");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let read = place.ok(&["consume", "t", "--exit-at-end"], b"");
    let mut read: Vec<u32> =
        String::from_utf8_lossy(&read).lines().map(|line| line.parse().expect("a number")).collect();
    read.sort_unstable();
    assert_eq!(read, (0..5000).collect::<Vec<_>>());
}

#[test]
fn a_follower_sees_new_records_and_ends_with_its_counts() {
    let place = Place::new(&["t"]);
    let mut follower = place.command(&["consume", "t", "--output", "json"]).spawn().expect("starts");
    let mut printed = BufReader::new(follower.stdout.take().expect("it is piped"));
    for round in 0..3 {
        place.produced(&["produce", "t"], format!("line {round}\n").as_bytes());
        let mut line = String::new();
        printed.read_line(&mut line).expect("it prints");
        assert_eq!(line, format!("line {round}\n"));
    }
    let pid = Pid::from_raw(follower.id().cast_signed()).expect("a process");
    kill_process(pid, Signal::INT).expect("it runs");
    let status = follower.wait().expect("our own child");
    let mut report = String::new();
    follower.stderr.take().expect("it is piped").read_to_string(&mut report).expect("text");
    assert!(status.success(), "{status}: {report}");
    let report: Value = serde_json::from_str(&report).expect("a report");
    assert_eq!(report["records"], 3);

    // A reader that goes away ends it too, without a complaint.
    let mut closed = place.command(&["consume", "t", "--output", "json"]).spawn().expect("starts");
    drop(closed.stdout.take());
    let status = wait::until("the end of it", Duration::from_secs(20), || closed.try_wait().expect("our own child"));
    assert!(status.success(), "{status}");
}

/// A group's offsets are shown before they are moved, moved with `--execute`, described with their lag, and deleted (C179:
/// what was deleted before it was read is no lag).
#[test]
fn groups_are_moved_described_and_deleted() {
    let place = Place::new(&["orders", "other"]);
    let lines: String = (0..50).map(|number| format!("{number}\n")).collect();
    place.produced(&["produce", "orders", "--partition", "1"], lines.as_bytes());
    let json = |words: &[&str]| -> Value {
        let out = place.ok(&[words, &["--output", "json"]].concat(), b"");
        serde_json::from_slice(&out).expect("one value")
    };
    let reset = ["group", "reset-offsets", "billing"];
    let shown = json(&[&reset[..], &["--topic", "orders:1", "--to", "earliest"]].concat());
    assert_eq!(shown["executed"], json!(false));
    assert_eq!(shown["offsets"], json!([{ "topic": "orders", "partition": 1, "offset": null, "new_offset": 0 }]));
    assert_eq!(json(&["group", "list"]), json!([]), "nothing was changed");
    json(&[&reset[..], &["--topic", "orders:0,1", "--to", "-40", "--execute"]].concat());
    let lag = |group: &str| -> Vec<(i64, i64)> {
        let found = json(&["group", "describe", group]);
        assert_eq!((&found["state"], &found["members"]), (&json!("Empty"), &json!([])));
        let offsets = found["offsets"].as_array().expect("a list").clone();
        offsets
            .iter()
            .map(|row| (row["partition"].as_i64().expect("set"), row["lag"].as_i64().expect("known")))
            .collect()
    };
    assert_eq!(lag("billing"), [(0, 0), (1, 40)]);
    let deleted = place.server.client(0).delete_records("orders", 1, 45).expect("the server answers");
    let deleted =
        if deleted.0 == 0 { deleted } else { place.server.client(1).delete_records("orders", 1, 45).expect("answers") };
    assert_eq!(deleted, (0, 45));
    assert_eq!(lag("billing"), [(0, 0), (1, 5)], "10 is committed, the log begins at 45");
    json(&[&reset[..], &["--shift", "38", "--execute"]].concat());
    assert_eq!(lag("billing"), [(0, 0), (1, 2)], "48 of 50; a shift ends at the log's end");
    assert_eq!(json(&["group", "list"])[0]["group"], json!("billing"));
    for (words, hint) in [
        (vec!["group", "describe", "nobody"], "there is no group nobody"),
        (
            vec!["group", "reset-offsets", "billing", "--topic", "missing", "--to", "latest"],
            "there is no topic missing",
        ),
        (vec!["group", "reset-offsets", "billing"], "--to"),
        (vec!["txn", "describe", "nobody"], "TRANSACTIONAL_ID_NOT_FOUND"),
        (
            vec!["txn", "abort", "--topic", "orders", "--partition", "0", "--start-offset", "3"],
            "no transaction is open",
        ),
    ] {
        let done = place.run(&words, b"");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(hint), "{words:?}: {said}");
    }
    assert_eq!(json(&["txn", "list"]), json!([]));
    let producers = json(&["txn", "describe", "--topic", "orders"]);
    assert_eq!(producers[0]["last_sequence"], json!(49), "{producers}");
    place.ok(&["group", "delete", "billing"], b"");
    assert_eq!(json(&["group", "list"]), json!([]));
}
