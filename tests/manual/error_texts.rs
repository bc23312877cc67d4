//! The texts of errors, read from the code: what follows a kind, and what `let why` names before
//! one.
//!
//! Not a parser of Rust: it knows the forms in which this code makes errors. A text that is made in
//! another way is missing in the list, and its kind still has an entry.

use std::collections::{BTreeMap, BTreeSet};

use sessile_tests::SourceFile;

/// The kinds with the words by which operators see them. Mistakes of a caller are left out.
const KINDS: &[(&str, &str)] = &[
    ("Corrupt", "corrupt"),
    ("Denied", "denied"),
    ("Evicted", "evicted"),
    ("Exists", "exists"),
    ("Full", "full"),
    ("Gone", "gone"),
    ("Incompatible", "incompatible"),
    ("InvalidUrl", "invalid-url"),
    ("Io", "io"),
    ("LockTimeout", "lock-timeout"),
    ("OutOfMemory", "out-of-memory"),
    ("Stale", "stale"),
    ("TooLarge", "too-large"),
    ("Unreachable", "unreachable"),
    ("Unsupported", "unsupported"),
];
const CRATES: &[&str] = &["core", "engine", "stores", "handler"];
/// How far from its text a kind may stand, in bytes.
const DISTANCE_MAX: usize = 400;
/// Shorter ones are parts of a text.
const WORDS_MIN: usize = 2;
/// The list is to be searched, so the beginning of a text is enough.
const WORDS_MAX: usize = 7;

/// The block of the manual: each kind, and its texts below it.
pub fn list(files: &[SourceFile]) -> String {
    let mut texts: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_library(&file.path)) {
        let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (name, kind) in KINDS {
            texts.entry(kind).or_default().extend(after_the_kind(code, name));
        }
        for (kind, text) in before_the_kind(code) {
            texts.entry(kind).or_default().insert(text);
        }
    }
    let mut block = "\n```text\n".to_owned();
    for (kind, texts) in texts.iter().filter(|(_, texts)| !texts.is_empty()) {
        block.push_str(&format!("{kind}:\n"));
        texts.iter().for_each(|text| block.push_str(&format!("    {text}\n")));
    }
    block + "```\n\n"
}

fn is_library(path: &str) -> bool {
    let of_crate = CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    let beside = ["test", "/models/", "/layouts/", "fuzz"];
    of_crate && path.ends_with(".rs") && !beside.iter().any(|part| path.contains(part))
}

/// `Kind, "text"`, also with fields of the kind and with `format!`.
fn after_the_kind(code: &str, name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(name) {
        let before = code.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_part = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_part || line.contains("assert") || line.trim_start().starts_with("//") {
            continue;
        }
        let mut rest = code.get(at + name.len()..).unwrap_or_default().trim_start();
        if rest.starts_with('{') {
            rest = rest.split_once('}').map_or("", |(_, rest)| rest).trim_start();
        }
        let text = rest.strip_prefix(',').and_then(literal);
        found.extend(text.filter(|text| is_whole(text)));
    }
    found
}

/// `let why = "text";`, with the first kind that follows.
fn before_the_kind(code: &str) -> Vec<(&'static str, String)> {
    let starts = code.match_indices("let why =").map(|(at, mark)| at + mark.len());
    let found = starts.filter_map(|at| {
        let rest = code.get(at..)?;
        let text = literal(rest).filter(|text| is_whole(text))?;
        let near = rest.get(..DISTANCE_MAX).unwrap_or(rest);
        let kind = near.split_once("ErrorKind::")?.1;
        let kind: String = kind.chars().take_while(char::is_ascii_alphanumeric).collect();
        let (_, kind) = KINDS.iter().find(|(name, _)| *name == kind)?;
        Some((*kind, text))
    });
    found.collect()
}

/// The string literal with which this begins, perhaps in `format!`, with `...` for what is filled
/// in.
fn literal(code: &str) -> Option<String> {
    let code = code.trim_start();
    let code = code.strip_prefix("format!(").unwrap_or(code).trim_start().strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = code.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => return Some(beginning(&text)),
            '\\' => match letters.next()? {
                '\n' => while letters.next_if(|c| c.is_whitespace()).is_some() {},
                other => text.push(other),
            },
            '{' => {
                letters.by_ref().find(|c| *c == '}')?;
                text.push_str("...");
            }
            other => text.push(other),
        }
    }
    None
}

fn beginning(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.get(..WORDS_MAX) {
        Some(first) if words.len() > WORDS_MAX => format!("{} ...", first.join(" ")),
        _ => words.join(" "),
    }
}

fn is_whole(text: &str) -> bool {
    text.split_whitespace().filter(|word| *word != "...").count() >= WORDS_MIN
}

#[test]
fn texts_are_found_in_each_form() {
    let code = "Error::new(ErrorKind::Full, \"no space \\\n    is left\");\n\
                let why = format!(\"the file of {name} is gone\");\n\
                return Err(Error::new(ErrorKind::Io, why));\n\
                (Denied, \"the user may \\\"not\\\"\", \"ask\"),\n\
                // Full, \"a comment only\"\n";
    let file = SourceFile { path: "crates/core/src/x.rs".to_owned(), text: code.to_owned() };
    assert_eq!(
        list(&[file]),
        "\n```text\ndenied:\n    the user may \"not\"\nfull:\n    no space is left\nio:\n    \
         the file of ... is gone\n```\n\n"
    );
}
