//! The names of contenders: how a name and a variant are one word, and which entries of a table such words mean.
//!
//! Invariant: what [`title`] writes, `--stores` takes and means that one entry. Not here: URLs, and which contenders there are.

use crate::options::UsageError;

/// Name and variant as one word.
pub(crate) fn title(name: &str, variant: &str) -> String {
    if variant == "default" { name.to_owned() } else { format!("{name}#{variant}") }
}

/// The name in a word, and the variant if it has one.
pub(crate) fn parts(word: &str) -> (&str, Option<&str>) {
    word.split_once('#').map_or((word, None), |(name, variant)| (name, Some(variant)))
}

/// The entries of a table that words mean: of a name alone all variants. `what` says what an entry is, and `named` tells the
/// name and the variant of one.
///
/// # Errors
///
/// When a word means none, or two words mean the same one.
pub(crate) fn meant<'a, T>(
    table: &'static [T],
    words: impl IntoIterator<Item = &'a str>,
    what: &str,
    named: fn(&T) -> (&'static str, &'static str),
) -> Result<Vec<&'static T>, UsageError> {
    let mut chosen: Vec<&'static T> = Vec::new();
    for word in words {
        let (name, variant) = parts(word);
        let is_meant = |entry: &&T| {
            let (its_name, its_variant) = named(entry);
            its_name == name && variant.is_none_or(|variant| variant == its_variant)
        };
        let meant: Vec<&'static T> = table.iter().filter(is_meant).collect();
        if meant.is_empty() {
            let known: Vec<String> = table.iter().map(named).map(|(name, variant)| title(name, variant)).collect();
            // A URL may contain a password.
            let shown = if word.contains(['@', '/']) { String::new() } else { format!(" {word:?}") };
            return Err(UsageError(format!("unknown {what}{shown}; known: {}", known.join(", "))));
        }
        if meant.iter().any(|entry| chosen.iter().any(|other| std::ptr::eq(*other, *entry))) {
            return Err(UsageError(format!("{word} is chosen twice")));
        }
        chosen.extend(meant);
    }
    Ok(chosen)
}
