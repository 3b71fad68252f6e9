//! Sizes with a unit: 512M, 2G, 1000000.

use thiserror::Error;

/// Why a text is no size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ByteSizeError {
    /// Not a number with a known unit.
    #[error("write a number of bytes, or one with K, M, G or T (of 1024): 65536, 64K, 512M, 2G")]
    IllFormed,
    /// More than 64 bits hold.
    #[error("that is more than any machine has")]
    TooLarge,
}

/// Reads a size in bytes. K, M, G and T are powers of 1024, in either case; `KiB`, `MB` and the like mean the same.
pub fn parse(text: &str) -> Result<u64, ByteSizeError> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(ByteSizeError::IllFormed),
    };
    if number.is_empty() {
        return Err(ByteSizeError::IllFormed);
    }
    let number: u64 = number.parse().map_err(|_| ByteSizeError::TooLarge)?;
    number.checked_mul(1 << shift).ok_or(ByteSizeError::TooLarge)
}

/// The same for sizes that Kafka carries in 31 bits; at least 1.
pub fn parse_int32(text: &str) -> Result<u32, String> {
    let bytes = parse(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 && bytes <= i32::MAX as u32 => Ok(bytes),
        _ => Err("write a size from 1 to 2147483647 bytes, for example 16384 or 1M".to_owned()),
    }
}

/// Prints a size with the largest unit that leaves no fraction.
pub fn display(bytes: u64) -> String {
    let units = ["", "K", "M", "G", "T"];
    let mut bytes = bytes;
    let mut unit = 0;
    while bytes > 0 && bytes.is_multiple_of(1024) && unit + 1 < units.len() {
        bytes /= 1024;
        unit += 1;
    }
    format!("{bytes}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_and_print() {
        let cases = [
            ("0", 0, "0"),
            ("1", 1, "1"),
            ("1000", 1000, "1000"),
            ("64k", 65536, "64K"),
            ("512M", 512 << 20, "512M"),
            ("2 GiB", 2 << 30, "2G"),
            ("1tb", 1 << 40, "1T"),
            (" 7b ", 7, "7"),
            ("16777215T", 16_777_215 << 40, "16777215T"),
        ];
        for (text, bytes, printed) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
            assert_eq!(display(bytes), printed, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "M", "1.5G", "-1", "1Q", "0x10", "1 2"] {
            assert_eq!(parse(text), Err(ByteSizeError::IllFormed), "{text}");
        }
        for text in ["18446744073709551616", "16777216T"] {
            assert_eq!(parse(text), Err(ByteSizeError::TooLarge), "{text}");
        }
        assert!(parse_int32("2G").is_err());
        assert!(parse_int32("0").is_err());
        assert_eq!(parse_int32("1M"), Ok(1 << 20));
    }
}
