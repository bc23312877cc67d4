//! The names of contenders: a name and a variant as one word (`files#shm`).
//!
//! Invariant: `--stores` reads what [`title`] writes as that one contender. URLs are not handled
//! here.

use crate::UsageError;

pub fn title(name: &str, variant: &str) -> String {
    if variant == "default" { name.to_owned() } else { format!("{name}#{variant}") }
}

pub fn split_title(word: &str) -> (&str, Option<&str>) {
    word.split_once('#').map_or((word, None), |(name, variant)| (name, Some(variant)))
}

/// The entries of a table that words name; a name alone means all variants. Fails when a word is
/// unknown, or two words name one entry.
pub fn select_entries<'a, T>(
    table: &'static [T],
    words: impl IntoIterator<Item = &'a str>,
    what: &str,
    named: fn(&T) -> (&'static str, &'static str),
) -> Result<Vec<&'static T>, UsageError> {
    let mut chosen: Vec<&'static T> = Vec::new();
    for word in words {
        let (name, variant) = split_title(word);
        let is_meant = |entry: &&T| {
            let (its_name, its_variant) = named(entry);
            its_name == name && variant.is_none_or(|variant| variant == its_variant)
        };
        let meant: Vec<&'static T> = table.iter().filter(is_meant).collect();
        if meant.is_empty() {
            let known: Vec<String> =
                table.iter().map(named).map(|(name, variant)| title(name, variant)).collect();
            // A URL may contain a password.
            let shown =
                if word.contains(['@', '/']) { String::new() } else { format!(" {word:?}") };
            return Err(UsageError(format!("unknown {what}{shown}; known: {}", known.join(", "))));
        }
        if meant.iter().any(|entry| chosen.iter().any(|other| std::ptr::eq(*other, *entry))) {
            return Err(UsageError(format!("{word} is chosen twice")));
        }
        chosen.extend(meant);
    }
    Ok(chosen)
}
