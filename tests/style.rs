//! The style rules of CONTRIBUTING.md that a machine can check, on every file of the repository.
//!
//! Each rule is a function from a file to faults, so that a test can also show it a fault.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

use sessile_tests::{SourceFile, files};

/// The upper bound. CONTRIBUTING.md advises less; no file is shaped by this number.
const FILE_LINES_MAX: usize = 700;
const LINE_COLUMNS_MAX: usize = 100;
const CODE: &[&str] = &[".rs", ".lua", ".sh", ".php", ".inc", ".pl", ".c", ".h", ".ci/run"];
/// The files whose lines have a limit. Perl scripts have their own formatter.
const LIMITED_LINES: &[&str] = &[".rs", ".lua", ".sh", ".php", ".inc", ".c", ".h", ".ci/run"];
const NAMES_THAT_SAY_NOTHING: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];
/// The files that may have unsafe code, each with its decision page.
const UNSAFE_FILES: &[(&str, &str)] = &[
    ("crates/bench/src/reference/lmdb.rs", "docs/decisions/0004-unsafe-in-one-reference-row.md"),
    ("crates/capi/src/lib.rs", "docs/decisions/0015-unsafe-in-the-c-interface.md"),
    ("crates/engine/src/memory/fork.rs", "docs/decisions/0028-only-the-beacon-tells-death.md"),
    ("crates/engine/src/storage/kernel_aio.rs", "docs/decisions/0010-syncs-in-the-background.md"),
    (
        "crates/engine/src/memory/map.rs",
        "docs/decisions/0006-slots-and-entries-in-shared-memory.md",
    ),
];
/// The roots of their crates, which deny unsafe code instead of forbidding it.
const UNSAFE_ROOTS: &[&str] =
    &["crates/bench/src/lib.rs", "crates/capi/src/lib.rs", "crates/engine/src/lib.rs"];

fn too_long(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().count();
    (lines > FILE_LINES_MAX)
        .then(|| format!("{lines} lines, which cannot be one concept; split it by concept"))
        .into_iter()
        .collect()
}

fn too_wide(file: &SourceFile) -> Vec<String> {
    let columns = file.text.lines().map(|line| line.chars().count()).enumerate();
    columns
        .filter(|(_, columns)| *columns > LINE_COLUMNS_MAX)
        .map(|(index, columns)| format!("line {} has {columns} columns", index + 1))
        .collect()
}

fn not_ascii(file: &SourceFile) -> Vec<String> {
    let lines = file.text.lines().enumerate().filter(|(_, line)| !line.is_ascii());
    lines.map(|(index, _)| format!("line {} is not ASCII", index + 1)).collect()
}

fn unfinished(file: &SourceFile) -> Vec<String> {
    // In two parts, or this file would have the fault.
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut faults = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for word in
            line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| words.contains(word))
        {
            faults.push(format!("line {}: {word}; finish it, or open an issue", index + 1));
        }
    }
    faults
}

fn empty_names(file: &SourceFile) -> Vec<String> {
    let stem =
        file.path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    let in_folder = file.path.split('/').any(|part| NAMES_THAT_SAY_NOTHING.contains(&part));
    let mut faults = Vec::new();
    if in_folder || NAMES_THAT_SAY_NOTHING.contains(&stem) {
        faults.push("the name of the file says nothing; name it after its concept".to_owned());
    }
    for line in file.text.lines() {
        let name = line
            .trim()
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ")
            .strip_prefix("mod ");
        let name = name.and_then(|rest| rest.split([';', ' ', '{']).next());
        if name.is_some_and(|name| NAMES_THAT_SAY_NOTHING.contains(&name)) {
            faults.push(format!("{:?} names nothing", line.trim()));
        }
    }
    faults
}

fn without_module_doc(file: &SourceFile) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    let opens = first.starts_with("//! ") && first.len() > 10;
    (!opens)
        .then(|| "a module opens with `//!`: what it is, what it owns, what it is not".to_owned())
        .into_iter()
        .collect()
}

/// Each dependency has a comment with its reason above or beside it. Workspace dependencies have it
/// in the root; crates of this workspace need none.
fn dependencies_without_reason(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    let (mut inside, mut commented, mut depth) = (false, false, 0usize);
    for line in file.text.lines().map(str::trim) {
        let entry = depth == 0 && !line.starts_with(['#', '[']) && line.contains('=');
        if depth == 0 && line.starts_with('[') {
            inside =
                line.trim_end_matches(']').ends_with("dependencies") || is_one_dependency(line);
            if is_one_dependency(line) && !commented {
                faults.push(format!("{line} has no reason beside it"));
            }
        } else if inside && entry {
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            let ours = name.starts_with("sessile-");
            let from_root = line.contains("workspace = true");
            if !(commented || line.contains(" # ") || ours || from_root) {
                faults.push(format!("{name} has no reason beside it"));
            }
        }
        commented = line.starts_with('#');
        let opened = line.matches(['[', '{']).count();
        let closed = line.matches([']', '}']).count();
        depth = (depth + opened).saturating_sub(closed);
    }
    faults
}

fn is_one_dependency(header: &str) -> bool {
    header.contains("dependencies.")
}

fn unsafe_not_forbidden(file: &SourceFile) -> Vec<String> {
    let wanted = if UNSAFE_ROOTS.contains(&file.path.as_str()) {
        "#![deny(unsafe_code)]"
    } else {
        "#![forbid(unsafe_code)]"
    };
    (!file.text.contains(wanted))
        .then(|| format!("a crate root says {wanted}"))
        .into_iter()
        .collect()
}

fn unsafe_allowed(file: &SourceFile) -> Vec<String> {
    let allowed = file.text.contains(concat!("allow(unsafe", "_code"))
        || file.text.contains(concat!("expect(unsafe", "_code"));
    let listed = UNSAFE_FILES.iter().any(|(path, _)| *path == file.path);
    (allowed && !listed)
        .then(|| "unsafe code needs a decision page and a line in tests/style.rs".to_owned())
        .into_iter()
        .collect()
}

/// A signal that a shell does not trap ends it without its EXIT trap.
fn signals_without_clean_up(file: &SourceFile) -> Vec<String> {
    let traps: Vec<Vec<&str>> = file
        .text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("trap "))
        .map(|rest| rest.rsplit('\'').next().unwrap_or_default().split_whitespace().collect())
        .collect();
    let traps_any = |signal: &str| traps.iter().any(|signals| signals.contains(&signal));
    let missing =
        ["HUP", "INT", "TERM"].into_iter().filter(|signal| traps_any("EXIT") && !traps_any(signal));
    missing
        .map(|signal| format!("it cleans up at its end, and not after SIG{signal}: trap that too"))
        .collect()
}

/// The files on which the compiler is started: lib.rs, main.rs, src/bin/*.rs, build.rs.
fn is_crate_root(path: &str) -> bool {
    let in_crates = path.starts_with("crates/");
    let root = path.ends_with("/src/lib.rs")
        || path.ends_with("/src/main.rs")
        || path.ends_with("/build.rs");
    in_crates && (root || (path.contains("/src/bin/") && path.matches('/').count() == 4))
}

#[track_caller]
fn demand(rule: fn(&SourceFile) -> Vec<String>, applies: impl Fn(&SourceFile) -> bool) {
    let files: Vec<SourceFile> = files().unwrap().into_iter().filter(applies).collect();
    assert!(!files.is_empty(), "the rule applies to no file, so it checks nothing");
    let faults: Vec<String> = files
        .iter()
        .flat_map(|file| rule(file).into_iter().map(move |fault| format!("{}: {fault}", file.path)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[track_caller]
fn catches(rule: fn(&SourceFile) -> Vec<String>, path: &str, bad: &str, good: &str) {
    let file = |text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    assert!(!rule(&file(bad)).is_empty(), "the rule does not see the fault in {bad:?}");
    assert_eq!(rule(&file(good)), Vec::<String>::new(), "the rule sees a fault in {good:?}");
}

fn rust(file: &SourceFile) -> bool {
    file.ends_with(&[".rs"])
}

#[test]
fn no_file_is_too_long() {
    demand(too_long, |file| file.ends_with(CODE));
    catches(too_long, "a.rs", &"//\n".repeat(701), &"//\n".repeat(700));
}

#[test]
fn no_line_is_too_wide() {
    demand(too_wide, |file| file.ends_with(LIMITED_LINES));
    catches(too_wide, "a.rs", &format!("//{}", "x".repeat(99)), &format!("//{}", "x".repeat(98)));
}

/// What converts values, calls and maps errors: the compiled part of a language. The adapters of
/// frameworks are beside it.
#[test]
fn the_glue_of_a_language_stays_thin() {
    let adapters =
        ["bindings/node/src/express_session.rs", "bindings/perl/tied_hash.xsh"].map(str::to_owned);
    let files = files().unwrap();
    for (place, endings) in [
        ("bindings/node/src/", &[".rs"][..]),
        ("bindings/perl/", &[".xs", ".xsh", ".h"]),
        ("bindings/python/src/", &[".rs"]),
    ] {
        let glue = files.iter().filter(|file| {
            file.path.starts_with(place)
                && file.ends_with(endings)
                && !adapters.contains(&file.path)
        });
        let lines: usize = glue.map(|file| file.text.lines().count()).sum();
        assert!((300..700).contains(&lines), "{place}: {lines} lines");
    }
}

#[test]
fn every_text_is_ascii() {
    demand(not_ascii, |file| file.ends_with(CODE) || file.ends_with(&[".md", ".toml", "Makefile"]));
    catches(not_ascii, "a.rs", "// caf\u{e9}", "// cafe");
}

#[test]
fn nothing_is_left_for_later() {
    demand(unfinished, |file| file.ends_with(CODE) || file.ends_with(&[".toml", "Makefile"]));
    catches(unfinished, "a.rs", concat!("// TO", "DO: all"), "// a list of things to do");
}

#[test]
fn every_name_says_something() {
    demand(empty_names, rust);
    catches(empty_names, "a.rs", "pub mod utils;", "mod utility_bill;");
    let misnamed = SourceFile { path: "crates/x/src/helpers.rs".to_owned(), text: String::new() };
    assert!(!empty_names(&misnamed).is_empty());
}

#[test]
fn every_module_says_what_it_is() {
    demand(without_module_doc, rust);
    catches(without_module_doc, "a.rs", "use std::fs;\n//! Late.", "//! What it is.\n");
}

#[test]
fn every_dependency_has_a_reason() {
    demand(dependencies_without_reason, |file| file.ends_with(&["Cargo.toml"]));
    let good = "[package]\nname = \"x\"\n[dependencies]\n# Because.\na = { version = \"1\", \
                features = [\n  \"y\",\n] }\n\
                b = \"1\" # Because.\nlog.workspace = true\nsessile-core = { path = \"../core\" \
                }\n[lints]\nworkspace = true\n";
    catches(
        dependencies_without_reason,
        "Cargo.toml",
        "[dependencies]\n# Because.\na = \"1\"\nb = \"1\"\n",
        good,
    );
    catches(
        dependencies_without_reason,
        "Cargo.toml",
        "[dev-dependencies.a]\nversion = \"1\"\n",
        "# Because.\n[dependencies]\n",
    );
}

/// A terminal that was closed left a Redis server and two directories of sessions.
#[test]
fn a_script_that_cleans_up_does_so_when_its_terminal_closes() {
    demand(signals_without_clean_up, |file| file.ends_with(&[".sh"]));
    let good = "trap end EXIT\n    trap 'exit 130' HUP INT TERM\n";
    catches(
        signals_without_clean_up,
        "a.sh",
        "trap 'rm -rf \"$dir\"' EXIT\ntrap 'exit 130' INT TERM\n",
        good,
    );
    catches(signals_without_clean_up, "a.sh", "trap end EXIT\n", "echo done\n");
}

#[test]
fn unsafe_code_is_forbidden_but_where_a_decision_allows_it() {
    demand(unsafe_not_forbidden, |file| is_crate_root(&file.path));
    demand(unsafe_allowed, rust);
    catches(unsafe_not_forbidden, "crates/x/src/lib.rs", "//! X.", "#![forbid(unsafe_code)]");
    catches(unsafe_allowed, "crates/x/src/a.rs", concat!("#![allow(unsafe", "_code)]"), "");
    for path in ["crates/x/src/lib.rs", "crates/x/src/main.rs", "crates/x/src/bin/worker.rs"] {
        assert!(is_crate_root(path), "{path}");
    }
    assert!(!is_crate_root("crates/x/src/bin/worker/part.rs"));
    for (path, decision) in UNSAFE_FILES {
        assert!(
            sessile_tests::root().join(decision).exists(),
            "{path} points at {decision}, which does not exist"
        );
    }
}
