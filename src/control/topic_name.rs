//! Which topic names are legal, and which collide.

use thiserror::Error;

/// Why a name cannot be a new topic's; the text is Kafka's, the code INVALID_TOPIC_EXCEPTION (17).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopicNameError {
    /// No characters.
    #[error("Topic name is invalid: the empty string is not allowed")]
    Empty,
    /// A name that a file system keeps for itself.
    #[error("Topic name is invalid: '{name}' is not allowed")]
    Dots {
        /// `.` or `..`.
        name: String,
    },
    /// More than [`TOPIC_NAME_LENGTH_MAX`] characters.
    #[error(
        "Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    )]
    TooLong {
        /// The name as sent.
        name: String,
    },
    /// A character outside the legal ones.
    #[error(
        "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    )]
    Character {
        /// The name as sent.
        name: String,
    },
    /// Equal to another name once `.` and `_` are taken for the same, as metric names take them.
    #[error("Topic '{name}' collides with existing topic: {existing}")]
    Collides {
        /// The name as sent.
        name: String,
        /// The topic that is there.
        existing: String,
    },
}

/// The longest name: with `-` and a partition number it must fit a file name of 255 bytes.
pub const TOPIC_NAME_LENGTH_MAX: usize = 249;

/// Checks a name by itself, in Kafka's order.
///
/// # Errors
/// The first rule that the name breaks; [`TopicNameError::Collides`] never.
pub fn check_topic_name(name: &str) -> Result<(), TopicNameError> {
    let named = || name.to_owned();
    if name.is_empty() {
        Err(TopicNameError::Empty)
    } else if matches!(name, "." | "..") {
        Err(TopicNameError::Dots { name: named() })
    } else if name.encode_utf16().count() > TOPIC_NAME_LENGTH_MAX {
        // Kafka counts UTF-16 units; it matters only for which of two refusals a bad name gets.
        Err(TopicNameError::TooLong { name: named() })
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        Err(TopicNameError::Character { name: named() })
    } else {
        Ok(())
    }
}

/// The name with every `.` as `_`: two topics with one key collide.
#[must_use]
pub fn collision_key(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::{check_topic_name, collision_key};

    #[test]
    fn names_are_judged_with_kafkas_words() {
        let long = "a".repeat(250);
        let too_long =
            format!("Topic name is invalid: the length of '{long}' is longer than the max allowed length 249");
        let characters = |name: &str| {
            format!(
                "Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
            )
        };
        let cases: Vec<(&str, Option<String>)> = vec![
            ("", Some("Topic name is invalid: the empty string is not allowed".into())),
            (".", Some("Topic name is invalid: '.' is not allowed".into())),
            ("..", Some("Topic name is invalid: '..' is not allowed".into())),
            ("...", None),
            ("a b", Some(characters("a b"))),
            ("a/b", Some(characters("a/b"))),
            ("a\u{e9}", Some(characters("a\u{e9}"))),
            ("a\0", Some(characters("a\0"))),
            (&long, Some(too_long)),
            (&long[1..], None),
            ("Az09._-", None),
        ];
        for (name, refusal) in cases {
            assert_eq!(check_topic_name(name).err().map(|error| error.to_string()), refusal, "name {name:?}");
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        assert_eq!(collision_key("m.n_o"), collision_key("m_n.o"));
        assert_ne!(collision_key("m-n"), collision_key("m_n"));
    }
}
