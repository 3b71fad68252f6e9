//! Kafka's 128-bit ids, printed as URL-safe base64.

use std::fmt;

/// A topic, directory or member id as Kafka writes it: 16 bytes, most significant first. All zeros means "no id".
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The id that stands for "none" in a message.
    pub const ZERO: Self = Self([0; 16]);

    /// Makes a version 4 (random) id out of 16 random bytes; the randomness is the caller's.
    ///
    /// As in Kafka, the caller draws again where [`Uuid::is_reserved`] holds or the text starts with `-`, which a
    /// command line would take for an option.
    pub const fn from_random_bytes(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Whether this is the id that stands for "none".
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Whether Kafka keeps this id for its own use: 0 is none, 1 the topic of the cluster's metadata.
    pub fn is_reserved(&self) -> bool {
        u128::from_be_bytes(self.0) <= 1
    }

    /// Reads the 22 characters that [`fmt::Display`] prints; `None` for anything else.
    pub fn from_base64(text: &str) -> Option<Self> {
        if text.len() != BASE64_LEN {
            return None;
        }
        let mut bits: u128 = 0;
        for (index, character) in text.bytes().enumerate() {
            let digit = ALPHABET.iter().position(|&letter| letter == character)? as u128;
            if index + 1 < BASE64_LEN {
                bits = (bits << 6) | digit;
            } else {
                // 22 digits carry 132 bits: the last one has only two of the id's and the rest must be zero.
                if digit & 0x0f != 0 {
                    return None;
                }
                bits = (bits << 2) | (digit >> 4);
            }
        }
        Some(Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0; BASE64_LEN];
        for (index, character) in text.iter_mut().enumerate() {
            let shift = 122_i32 - 6 * index as i32;
            let digit = if shift >= 0 { bits >> shift } else { bits << 4 };
            *character = ALPHABET[(digit & 0x3f) as usize];
        }
        formatter.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

const BASE64_LEN: usize = 22;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

#[cfg(test)]
mod tests {
    use super::Uuid;

    /// Texts printed by Kafka's own `Uuid.toString` for the same bytes.
    #[test]
    fn text_is_kafkas() {
        let cases = [
            (Uuid::ZERO, "AAAAAAAAAAAAAAAAAAAAAA"),
            (Uuid([0xff; 16]), "_____________________w"),
            (Uuid(std::array::from_fn(|index| index as u8 * 17)), "ABEiM0RVZneImaq7zN3u_w"),
        ];
        for (id, text) in cases {
            assert_eq!(id.to_string(), text);
            assert_eq!(Uuid::from_base64(text), Some(id), "{text}");
        }
    }

    #[test]
    fn ill_formed_text_is_refused() {
        for text in
            ["", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA+", "AAAAAAAAAAAAAAAAAAAAAB"]
        {
            assert_eq!(Uuid::from_base64(text), None, "{text}");
        }
    }

    #[test]
    fn a_random_id_has_version_4() {
        let id = Uuid::from_random_bytes([0xff; 16]);
        assert_eq!((id.0[6], id.0[8]), (0x4f, 0xbf));
        assert!(!id.is_reserved());
        assert!(Uuid::ZERO.is_reserved());
    }
}
