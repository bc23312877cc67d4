//! The rooms of a crate: folders in layers, whose imports point one way.
//!
//! A crate lists its layers from the bottom up. A file may use its own layer and those below, and
//! the files of a folder do not use each other in a circle. Tests may use anything. Who calls a
//! method that a file adds to the type of another file uses that file, without an import.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

use std::collections::{BTreeMap, BTreeSet};

use sessile_tests::{SourceFile, files};

/// The rooms of the engine: crates/engine/DESIGN.md.
const ENGINE: (&str, &[&str]) =
    ("crates/engine/src", &["memory", "table", "storage", "operations", "recovery"]);
/// What stores have in common, the stores, and what is built on them. A store may use another one
/// only if that stands before it.
const STORES: (&str, &[&str]) = (
    "crates/stores/src",
    &[
        "store_url",
        "hashed_ids",
        "random",
        "encryption",
        "server_kind",
        "facts",
        "counter_files",
        "registry",
        "open_stores",
        "lazy_store",
        "file_system",
        "owner",
        "locks",
        "several",
        "connections",
        "sql",
        "memory",
        "sessile",
        "files",
        "sqlite",
        "mysql",
        "postgres",
        "redis",
        "memcached",
        "layouts",
        "route",
        "migrate",
        "ask_server",
        "copy",
        "feature_table",
        "fuzzing",
    ],
);
/// The list of all stores in `lib.rs`, in which the registry looks up a URL.
const LIST_OF_STORES: &str = "STORES";

/// All faults of the crate below `root` with these layers, each the name of a folder or a file.
fn check(files: &[SourceFile], (root, layers): (&str, &[&str])) -> Vec<String> {
    let mut faults = Vec::new();
    let mut beside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let added = added_methods(files, root);
    for file in files {
        let Some(path) = file.path.strip_prefix(root).and_then(|path| path.strip_prefix('/'))
        else {
            continue;
        };
        let is_root = path == "lib.rs" || path == "main.rs";
        if !path.ends_with(".rs") || is_root || is_test(path) {
            continue;
        }
        let code = code_of(&file.text);
        let room = room_of(path);
        let Some(own) = layers.iter().position(|layer| *layer == room) else {
            faults.push(format!("{path} is in none of the rooms {layers:?}"));
            continue;
        };
        for used in names_after(&code, "crate::") {
            match layers.iter().position(|layer| *layer == used) {
                Some(layer) if layer <= own => {}
                Some(_) => faults.push(format!("{path} uses {used}, which lies above {room}")),
                None if used == LIST_OF_STORES => {}
                None => faults.push(format!("{path} uses crate::{used}, which is no room")),
            }
        }
        let by_method = added.iter().filter(|(method, of)| **of != path && calls(&code, method));
        let by_method: Vec<&str> = by_method.map(|(_, of)| of.as_str()).collect();
        for used in &by_method {
            let above = layers.iter().position(|layer| *layer == room_of(used));
            if above.is_some_and(|layer| layer > own) {
                faults.push(format!("{path}{BY_METHOD}{used}, which lies above {room}"));
            }
        }
        if let Some((folder, name)) =
            path.strip_suffix(".rs").and_then(|path| path.rsplit_once('/'))
            && name != "mod"
        {
            let imported = names_after(&code, "super::").into_iter();
            let imported = imported.map(|used| format!("{folder}/{used}"));
            let called = by_method.iter().filter_map(|used| used.strip_suffix(".rs"));
            beside.insert(
                format!("{folder}/{name}"),
                imported.chain(called.map(str::to_owned)).collect(),
            );
        }
    }
    faults.extend(beside.keys().filter_map(|file| circle(&beside, file)));
    faults
}

fn is_test(path: &str) -> bool {
    ["models/", "tests/"].iter().any(|folder| path.starts_with(folder))
        || path.contains("/tests/")
        || path.ends_with("tests.rs")
}

fn room_of(path: &str) -> &str {
    path.split(['/', '.']).next().unwrap_or_default()
}

/// The methods that files add to types of other files, and the file of each. A name that several
/// functions of the crate have is left out: a call does not tell which of them it means.
fn added_methods(files: &[SourceFile], root: &str) -> BTreeMap<String, String> {
    let mut added = BTreeMap::new();
    let mut functions: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let Some(path) = file.path.strip_prefix(root).and_then(|path| path.strip_prefix('/'))
        else {
            continue;
        };
        if !path.ends_with(".rs") || is_test(path) {
            continue;
        }
        let code = code_of(&file.text);
        let mut adds_to_another = false;
        for line in code.lines() {
            if let Some(of) = line.strip_prefix("impl ").filter(|of| !of.contains(" for ")) {
                let of: String = of.chars().take_while(|c| c.is_alphanumeric()).collect();
                let is_own = |kind| code.contains(&format!("{kind} {of}"));
                adds_to_another = !["struct", "enum", "trait"].into_iter().any(is_own);
            }
            for name in names_after(line, "fn ") {
                *functions.entry(name.clone()).or_default() += 1;
                if adds_to_another && line.starts_with("pub") {
                    added.insert(name, path.to_owned());
                }
            }
        }
    }
    added.retain(|name, _| functions.get(name) == Some(&1));
    added
}

/// Whether code calls a method, or names it behind its type.
fn calls(code: &str, method: &str) -> bool {
    [".", "::"].into_iter().any(|before| {
        let called = format!("{before}{method}");
        let mut found = code.match_indices(&called);
        found.any(|(at, _)| code[at + called.len()..].starts_with(['(', ',', ')']))
    })
}

/// A file without its comments, its module of tests and the uses that only models have.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//")).peekable();
    while let Some(line) = lines.next() {
        let for_tests = line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        while for_tests && lines.next_if(|next| next.starts_with("#[")).is_some() {}
        if for_tests && lines.peek().is_some_and(|next| next.starts_with("mod ")) {
            break;
        }
        code.push_str(line);
        code.push('\n');
    }
    code
}

/// The names that follow a prefix of paths, also in a group in braces.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let is_name = |character: char| character.is_alphanumeric() || character == '_';
    let name = |text: &str| text.trim_start().chars().take_while(|c| is_name(*c)).collect();
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_name) || code[..at].ends_with("super::") {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(name(rest));
            continue;
        };
        let (mut depth, mut start) = (0, true);
        for (at, character) in group.char_indices() {
            if start && is_name(character) {
                names.insert(name(&group[at..]));
                start = false;
            }
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' => start = depth == 0,
                _ => {}
            }
        }
    }
    names
}

/// How the fault of a call goes on.
const BY_METHOD: &str = " calls a method of ";
/// How the fault of a circle ends.
const INSIDE: &str = ", which it uses";

/// A way from a file over the files it uses back to it.
fn circle(uses: &BTreeMap<String, BTreeSet<String>>, file: &String) -> Option<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![file]);
    while let Some(at) = next.pop() {
        for used in uses.get(at).into_iter().flatten() {
            if used == file {
                return Some(format!("{file} is used by {at}{INSIDE}"));
            }
            if reached.insert(used) {
                next.push(used);
            }
        }
    }
    None
}

#[test]
fn imports_of_the_engine_point_one_way() {
    let faults = check(&files().unwrap(), ENGINE);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Imports between rooms only: the files of one store may still use each other, and the methods of
/// client crates have names of methods here.
#[test]
fn imports_of_the_stores_point_one_way() {
    let mut faults = check(&files().unwrap(), STORES);
    faults.retain(|fault| !fault.ends_with(INSIDE) && !fault.contains(BY_METHOD));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn imports_of_both_crates_are_seen() {
    for (root, layers) in [ENGINE, STORES] {
        let upside_down: Vec<&str> = layers.iter().rev().copied().collect();
        let faults = check(&files().unwrap(), (root, &upside_down));
        assert!(faults.len() > layers.len(), "{}", faults.join("\n"));
    }
}

#[test]
fn each_kind_of_fault_is_found() {
    let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
    let crate_of = |text: &str| {
        let below = file("src/below/one.rs", text);
        let other = file("src/below/other.rs", "use super::third::A;\nuse crate::below::B;\n");
        let third = file("src/below/third.rs", "use std::fmt;\n");
        let above = file("src/above.rs", "use crate::{below::{self, C}, above::D};\n");
        let faults = check(&[below, other, third, above], ("src", &["below", "above"]));
        faults.join("\n")
    };
    assert_eq!(crate_of("use super::other::E;\n// crate::above::F\n"), "");
    assert_eq!(
        crate_of("use crate::above::G;\n"),
        "below/one.rs uses above, which lies above below"
    );
    assert_eq!(
        crate_of("fn call() {\n    crate::above::call();\n}\n"),
        "below/one.rs uses above, which lies above below"
    );
    assert!(crate_of("use crate::{below::H, above::I};\n").contains("lies above"));
    assert!(crate_of("use crate::Thing;\n").contains("which is no room"));
    assert_eq!(crate_of("#[cfg(test)]\nmod tests {\n    use crate::above::J;\n}\n"), "");
    let faults = check(
        &[
            file("src/below/one.rs", "use super::two::A;\n"),
            file("src/below/two.rs", "use super::one::B;\n"),
            file("src/elsewhere.rs", ""),
        ],
        ("src", &["below", "above"]),
    );
    assert_eq!(faults.len(), 3, "{faults:?}");
    let adds = "use crate::below::Thing;\nimpl Thing {\n    pub fn call(&self) {}\n}\n";
    let method = |one: &str, two: &str, above: &str| {
        let files = [("below/one", one), ("below/two", two), ("above", above)]
            .map(|(path, text)| file(&format!("src/{path}.rs"), text));
        check(&files, ("src", &["below", "above"]))
    };
    assert_eq!(
        method("fn go() {\n    thing.call();\n}\n", "", adds),
        ["below/one.rs calls a method of above.rs, which lies above below"]
    );
    assert_eq!(method("fn go() {\n    Thing::call(thing);\n}\n", "", adds).len(), 1);
    assert_eq!(method("fn go() {\n    called();\n}\n", "", adds), [""; 0]);
    let back = adds.replace("pub fn call(&self) {}", "pub fn answer(&self) {\n self.call();\n }");
    assert_eq!(method(adds, &back, ""), [""; 0]);
    let round = adds.replace("{}", "{\n self.answer();\n }");
    assert_eq!(method(&round, &back, "").len(), 2);
}
