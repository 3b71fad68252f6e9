//! Regular expressions by which clients choose names.

use regex::{Regex, RegexBuilder};

/// Reads a regular expression as Kafka does: by RE2's syntax, matched against whole names, in linear time.
///
/// Where the syntax of the library differs from RE2J's: `\\Q...\\E` is not known to it, and `&&` inside a class is an intersection.
///
/// # Errors
/// Why it is none, in a few words.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    // The pattern has to be one by itself: `a)(b` is none, though it would be between parentheses.
    RegexBuilder::new(pattern).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| reason(&error))?;
    let whole = format!(r"\A(?:{pattern})\z");
    RegexBuilder::new(&whole).size_limit(COMPILED_BYTES_MAX).build().map_err(|error| reason(&error))
}

fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => format!("it takes more than {limit} bytes"),
        // The library draws the place over several lines; the last one says what is wrong.
        other => {
            let text = other.to_string();
            text.rsplit("error: ").next().unwrap_or_default().trim().to_owned()
        }
    }
}

/// Memory of one expression: enough for a few thousand alternatives, too little to hurt.
const COMPILED_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What a real Kafka 4.4.0 says to each.
    #[test]
    fn expressions_are_kafkas() {
        for bad in ["[", "a(", "*", "(?=x)", r"\1", "(?P<n>x", r"\C", r"\h", r"\d{2,1}", "[a-", ")", "a)(b"] {
            let reason = compile(bad).expect_err(bad);
            assert!(!reason.is_empty() && !reason.contains('\n'), "{bad}: {reason}");
        }
        for good in [r"\pN", "x*?", "(?i)RX", "[[:alpha:]]+", "(?<n>x)", r"\z", "a|b", ""] {
            compile(good).unwrap_or_else(|reason| panic!("{good}: {reason}"));
        }
        let matches = |pattern: &str, name| compile(pattern).expect(pattern).is_match(name);
        assert!(matches("ab", "ab") && !matches("ab", "abc") && !matches("b", "ab"), "the whole name");
        assert!(matches("x?ab|zz", "xab") && !matches("x?ab|zz", "xabzz"));
        assert!(matches("(?i)ab", "AB"));
        assert!(compile("(a{1000}){1000}").is_err(), "bounded memory");
    }
}
