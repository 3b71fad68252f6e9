//! A place in a partition as a person names it: `earliest`, `latest`, 5, -5, `time:2026-01-31T12:00:00Z`.

use std::str::FromStr;

use jiff::Timestamp;
use thiserror::Error;

/// A place in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetPlace {
    /// The first offset there is.
    Earliest,
    /// Behind the last one.
    Latest,
    /// This offset.
    Offset(i64),
    /// So many before the end.
    FromEnd(i64),
    /// The first record with this time or a later one, in milliseconds.
    Time(i64),
}

/// Why a text is no place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OffsetPlaceError {
    /// None of the forms.
    #[error("write earliest, latest, an offset, -N for the last N records, or time:TIME")]
    IllFormed,
    /// No time.
    #[error("write a time as 2026-01-31T12:00:00Z (with Z or +01:00), or in milliseconds since 1970")]
    Time,
}

impl FromStr for OffsetPlace {
    type Err = OffsetPlaceError;

    fn from_str(text: &str) -> Result<Self, OffsetPlaceError> {
        match text.trim() {
            "earliest" | "beginning" => return Ok(Self::Earliest),
            "latest" | "end" => return Ok(Self::Latest),
            _ => {}
        }
        if let Some(time) = text.trim().strip_prefix("time:") {
            return parse_time(time).map(Self::Time);
        }
        match text.trim().parse::<i64>() {
            Ok(number) if number >= 0 => Ok(Self::Offset(number)),
            Ok(number) if number > i64::MIN => Ok(Self::FromEnd(-number)),
            _ => Err(OffsetPlaceError::IllFormed),
        }
    }
}

/// A time in milliseconds since 1970, as RFC 3339 or as that number.
pub fn parse_time(text: &str) -> Result<i64, OffsetPlaceError> {
    let text = text.trim();
    if let Ok(milliseconds) = text.parse::<i64>() {
        return if milliseconds >= 0 { Ok(milliseconds) } else { Err(OffsetPlaceError::Time) };
    }
    let time: Timestamp = text.parse().map_err(|_| OffsetPlaceError::Time)?;
    Ok(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let cases = [
            ("earliest", OffsetPlace::Earliest),
            ("latest", OffsetPlace::Latest),
            ("0", OffsetPlace::Offset(0)),
            ("12", OffsetPlace::Offset(12)),
            ("-5", OffsetPlace::FromEnd(5)),
            ("time:1000", OffsetPlace::Time(1000)),
            ("time:1970-01-01T00:00:01.5Z", OffsetPlace::Time(1500)),
            ("time:1970-01-01T01:00:01+01:00", OffsetPlace::Time(1000)),
        ];
        for (text, place) in cases {
            assert_eq!(text.parse(), Ok(place), "{text}");
        }
        for text in ["", "first", "1.5", "-9223372036854775808", "time:yesterday", "time:-1", "2026-01-01T00:00:00Z"] {
            assert!(text.parse::<OffsetPlace>().is_err(), "{text}");
        }
    }
}
