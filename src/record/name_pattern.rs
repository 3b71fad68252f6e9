//! Regular expressions by which clients choose names.

use regex::{Regex, RegexBuilder};

/// Reads a regular expression as Kafka does: by RE2's syntax, matched against whole names, in linear time.
///
/// The syntax of the library differs from RE2J's in corners: it refuses `\\Q...\\E`, octal escapes, and braces and brackets that
/// stand for themselves; it takes repeated repetitions and more flags and classes; `&&` and a class inside a class are set operations to it. All
/// that is known of this is in the tests below.
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

    /// Corners that a real Kafka 4.4.0, which reads expressions by RE2J 1.8, takes or refuses as this does.
    #[test]
    fn corners_of_the_syntax_that_are_alike() {
        let both = [
            r"\x41",
            r"\x{41}",
            "[]a]",
            "[^]a]",
            "[a-]",
            "[-a]",
            "[a-b-c]",
            "[:alpha:]",
            "[a~~b]",
            "a}",
            "a]",
            "a{1000}",
            "(?U)a*",
            "(?s)a.",
            "(?m)^a$",
            "(?i:A)b",
            "(?-i)a",
            "(?P<n>a)",
            r"\p{L}",
            r"\p{Greek}",
            r"\PL",
            r"\p{Any}",
            r"\Aa\z",
            r"\ba\b",
            r"\Ba",
            r"\-a",
            r"\/",
            "|a",
            "a||b",
            "()",
            "(|a)+",
            "(a*)*",
            "x{0}",
            "x{2,}",
            r"[\w.-]+",
        ];
        let neither = [
            r"[a-\d]",
            "(?<n>a)(?<n>b)",
            "(?P=n)",
            "(?#c)a",
            "(?>a)",
            "(?!a)b",
            "(?<=a)b",
            r"\R",
            r"\X",
            r"\K",
            r"\G",
            r"a\Z",
            r"\e",
            r"\cA",
            r"\8",
            r"\y",
            "a|*",
            "[b-a]",
            "[a",
            "(?i",
            "(?iz)a",
            "(?i-)a",
            "\\",
            r"[\Qa\E]",
            r"[\b]",
        ];
        for (patterns, is_taken) in [(&both[..], true), (&neither[..], false)] {
            for pattern in patterns {
                assert_eq!(compile(pattern).is_ok(), is_taken, "{pattern}");
            }
        }
    }

    /// Where they part ways: known, and no worse than this.
    #[test]
    fn corners_of_the_syntax_that_differ() {
        let kafka_alone =
            [r"\Qa.b\E", r"\101", r"\0", "[[a]", "[a[b]", r"[\d-z]", "a{,2}", "{", "a{", "a{b}", r"\p{^L}", "(?)a"];
        let here_alone = [
            r"\u0041",
            r"\U00000041",
            "[a--b]",
            "[[:foo:]]",
            "a**",
            "a*+",
            "a{2}{3}",
            "a{1001}",
            "(?x)a b",
            "(?u)a",
            "(?R)a",
            r"\p{IsGreek}",
            r"\p{Script=Greek}",
            r"\p{Lowercase}",
        ];
        for (patterns, is_taken_here) in [(&kafka_alone[..], false), (&here_alone[..], true)] {
            for pattern in patterns {
                assert_eq!(compile(pattern).is_ok(), is_taken_here, "{pattern}");
            }
        }
        // Taken by both, and not for the same: a name, and whether it matches here; in Kafka it is the other way round.
        for (pattern, name, matches_here) in [
            ("[a-c&&b]", "a", false),
            ("[[ab]c]", "a", true),
            (r"\<a\>", "a", true),
            (r"\b{start}a", "a", true),
            ("x{ 1 }", "x", true),
            ("[[.a.]]", "a", true),
        ] {
            assert_eq!(compile(pattern).expect(pattern).is_match(name), matches_here, "{pattern}");
        }
    }
}
