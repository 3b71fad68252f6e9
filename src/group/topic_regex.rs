//! Subscriptions by regular expression: which topics one stands for.

use std::collections::{BTreeMap, BTreeSet};

use regex::{Regex, RegexBuilder};

use crate::group::topics::Topics;

/// The topics that a regular expression stands for, by expression.
pub type ResolvedTopics = BTreeMap<String, BTreeSet<String>>;

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

/// The topics of these names that match; none where the expression is none.
pub fn matching(pattern: &str, topics: &dyn Topics) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    match compile(pattern) {
        Ok(regex) => topics.each_name(&mut |name| {
            if regex.is_match(name) {
                found.insert(name.to_owned());
            }
        }),
        // Kafka's log may have one that Kafka understands.
        Err(reason) => tracing::warn!(pattern, reason, "a regular expression of a subscription is not understood"),
    }
    found
}

/// Memory of one expression: enough for a few thousand alternatives, too little to hurt.
const COMPILED_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::topics::TopicInfo;

    struct Names(&'static [&'static str]);

    impl Topics for Names {
        fn by_name(&self, _name: &str) -> Option<TopicInfo> {
            None
        }

        fn name_of(&self, _id: [u8; 16]) -> Option<String> {
            None
        }

        fn version(&self) -> u64 {
            0
        }

        fn each_name(&self, found: &mut dyn FnMut(&str)) {
            self.0.iter().for_each(|name| found(name));
        }
    }

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
        let names = Names(&["ab", "abc", "xab", "AB"]);
        let of = |pattern| matching(pattern, &names).into_iter().collect::<Vec<_>>();
        assert_eq!(of("ab"), ["ab"], "the whole name");
        assert_eq!(of("x?ab|zz"), ["ab", "xab"]);
        assert_eq!(of("(?i)ab"), ["AB", "ab"]);
        assert!(of("[").is_empty());
        let bomb = "(a{1000}){1000}";
        assert!(compile(bomb).is_err(), "bounded memory");
    }
}
