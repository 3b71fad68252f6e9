//! Subscriptions by regular expression: which topics one stands for.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::topics::Topics;
use crate::record::name_pattern;

/// The topics that a regular expression stands for, by expression.
pub type ResolvedTopics = BTreeMap<String, BTreeSet<String>>;

/// The topics of these names that match; none where the expression is none.
pub fn matching(pattern: &str, topics: &dyn Topics) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    match name_pattern::compile(pattern) {
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

    #[test]
    fn whole_names_match() {
        let names = Names(&["ab", "abc", "xab", "AB"]);
        let of = |pattern| matching(pattern, &names).into_iter().collect::<Vec<_>>();
        assert_eq!(of("ab"), ["ab"], "the whole name");
        assert_eq!(of("x?ab|zz"), ["ab", "xab"]);
        assert_eq!(of("(?i)ab"), ["AB", "ab"]);
        assert!(of("[").is_empty());
    }
}
