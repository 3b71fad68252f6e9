//! The catalog's file: as bytes, and as frames whose CRCs are right.

use alluvium::control::broker_config::BrokerConfig;
use alluvium::control::catalog::{Catalog, Command, NewTopic, Rules};
use alluvium::control::catalog_file::{FORMAT_VERSION, encode_frame, image, replay};
use alluvium::control::id::{ClusterId, CoreIndex, DirectoryId};
use alluvium::control::placement::Move;
use alluvium::control::topic_config::ConfigChange;
use alluvium::record::batch::crc32c;
use alluvium::record::offset::TopicId;

/// An even first byte: the rest is a file. An odd one: the rest is frames (length, records), of which the next byte
/// says how many are the image; header and CRCs are made here.
pub fn run(data: &[u8]) {
    match data {
        [choice, file @ ..] if choice.is_multiple_of(2) => check(file),
        [_, in_image, frames @ ..] => check(&file_of(usize::from(*in_image), frames)),
        _ => {}
    }
}

fn check(file: &[u8]) {
    let Ok(replayed) = replay(file) else { return };
    assert_eq!(replayed.valid_bytes + replayed.torn_bytes, file.len() as u64, "bytes are lost");
    let valid_bytes = usize::try_from(replayed.valid_bytes).expect("files here are small");
    let cut = replay(&file[..valid_bytes]).expect("a torn tail can be cut");
    assert_eq!((&cut.catalog, cut.torn_bytes), (&replayed.catalog, 0), "the cut changes the catalog");
    let image = image(&replayed.catalog);
    let again = replay(&image).expect("an image can be replayed");
    assert_eq!(again.catalog, replayed.catalog, "the image is another catalog");
    assert_eq!(again.valid_bytes, image.len() as u64);
}

fn file_of(in_image: usize, mut data: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    let mut image_bytes = 0;
    let mut number = 0_u64;
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (records, rest) = rest.split_at(length);
        data = rest;
        put_frame(&mut frames, number, records);
        number += 1;
        if number == in_image as u64 {
            image_bytes = frames.len();
        }
    }
    let mut file = b"ALVCTLOG".to_vec();
    file.extend(FORMAT_VERSION.to_be_bytes());
    file.extend((image_bytes as u64).to_be_bytes());
    file.extend(crc32c(&file).to_be_bytes());
    file.append(&mut frames);
    file
}

fn put_frame(file: &mut Vec<u8>, number: u64, records: &[u8]) {
    let length = u32::try_from(records.len()).expect("at most 64 KiB").to_be_bytes();
    let crc = crc32c(&[&length, number.to_be_bytes().as_slice(), records].concat());
    file.extend(length);
    file.extend(crc.to_be_bytes());
    file.extend(number.to_be_bytes());
    file.extend(records);
}

/// A catalog that goes through each command, in both forms, and each kind of record by itself.
pub fn seeds() -> Vec<Vec<u8>> {
    let config = BrokerConfig::default();
    let rules = Rules { config: &config, node_id: 1, clamp_replication: false, failed_directories: &[] };
    let mut catalog = Catalog::new();
    let mut file = image(&catalog);
    // The records of the image, without what is made anew around them.
    let mut frames = Vec::new();
    let mut put = |records: &[u8]| {
        frames.extend(u16::try_from(records.len()).expect("short").to_be_bytes());
        frames.extend(records);
    };
    put(file.get(FILE_HEADER_BYTES + FRAME_HEADER_BYTES..).unwrap_or_default());
    for command in commands() {
        let records = catalog.plan(&command, &rules).expect("the commands are good");
        encode_frame(&catalog, &records, &mut file);
        catalog.apply(&records).expect("planned on this state");
        let mut body = Vec::new();
        records.iter().for_each(|record| record.encode(&mut body));
        put(&body);
    }
    let mut seeds = vec![
        [&[0], file.as_slice()].concat(),
        [&[0], &file[..file.len() - 3]].concat(),
        [&[0], image(&catalog).as_slice()].concat(),
        [&[1, 1], frames.as_slice()].concat(),
        [&[1, 0], frames.as_slice()].concat(),
    ];
    for kind in 1..=10_u8 {
        let record = [&[kind], [1; 120].as_slice()].concat();
        seeds.push([&[1, 0, 0, record.len() as u8], record.as_slice()].concat());
    }
    seeds
}

fn commands() -> Vec<Command> {
    let topic_id = TopicId([5; 16]);
    let topic = |name: &str, topic_id, partition_count| {
        Command::CreateTopic(NewTopic {
            name: name.into(),
            topic_id,
            partition_count,
            replication_factor: -1,
            assignments: Vec::new(),
            configs: vec![("segment.ms".into(), Some("1000".into()))],
            created_ms: 5,
            seed: 0,
        })
    };
    let start = |cores| Command::StartServer {
        cluster_id: ClusterId([3; 16]),
        cores: CoreIndex::first(cores),
        directories: vec![DirectoryId([1; 16]), DirectoryId([2; 16])],
    };
    let core = CoreIndex::first(1)[0];
    vec![
        start(3),
        topic("orders", topic_id, 3),
        topic("gone", TopicId([6; 16]), 1),
        Command::AlterTopicConfigs {
            topic_id,
            changes: vec![ConfigChange::Set { name: "retention.ms".into(), value: Some("7".into()) }],
        },
        Command::CreatePartitions { topic_id, count: 4, assignments: None, seed: 1 },
        Command::MovePartition { moved: Move { topic_id, partition: 1, core } },
        Command::AllocateProducerIds { core },
        Command::DeleteTopic { topic_id: TopicId([6; 16]) },
        start(2),
    ]
}

const FILE_HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 16;
