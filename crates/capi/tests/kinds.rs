//! The table of error kinds, their C codes and what each language makes of them:
//! `crates/capi/ERRORS.md`.
//!
//! A language adds a column to [`COLUMNS`]. Its own tests read the table.

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "tests")]

use std::ffi::CStr;
use std::path::Path;
use std::time::Duration;

use sessile_capi::*;
use sessile_core::{ErrorKind, Holder};

/// In the order of the codes. The last one, a defect of the library, has no kind.
fn kinds() -> Vec<ErrorKind> {
    use ErrorKind::*;
    let (holder, waited) = (Holder::default(), Duration::ZERO);
    vec![
        InvalidId,
        InvalidUrl,
        InvalidArgument,
        Unsupported,
        Exists,
        Gone,
        Destroyed,
        Stale,
        LockTimeout { holder, waited },
        TooLarge { size: 0, limit: 0 },
        Unreachable,
        Denied,
        Full,
        OutOfMemory,
        Evicted,
        Corrupt,
        Incompatible,
        Io,
    ]
}

/// The name of a kind in a language; `number` is that of the C code.
type Column = fn(name: &str, number: u32) -> String;

const COLUMNS: &[(&str, Column)] = &[
    ("kind", |name, _| format!("`{name}`")),
    ("C", |name, number| format!("`SESSILE_{}` ({number})", name.to_uppercase().replace('-', "_"))),
    ("PHP", |_, _| "`E_WARNING`".to_owned()),
    ("Python", |name, _| match name {
        // A panic goes to Python as one.
        "panic" => "`PanicException`".to_owned(),
        _ => format!("`sessile.{}`", class_name(name)),
    }),
    ("Node", |name, _| format!("`{}Error`", class_name(name))),
    ("Perl: `Sessile::Error`", |name, _| format!("`->kind eq '{name}'`")),
];

/// `LockTimeout` for `lock-timeout`.
fn class_name(name: &str) -> String {
    let word = |word: &str| format!("{}{}", word[..1].to_uppercase(), &word[1..]);
    name.split('-').map(word).collect()
}

fn name_of(number: u32) -> Option<String> {
    let name = sessile_code_name(number);
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned())
}

fn table() -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = row(COLUMNS.iter().map(|(title, _)| (*title).to_owned()).collect());
    table += &row(COLUMNS.iter().map(|_| "---".to_owned()).collect());
    for (number, name) in (1..).map_while(|number| Some((number, name_of(number)?))) {
        table += &row(COLUMNS.iter().map(|(_, column)| column(&name, number)).collect());
    }
    table
}

#[test]
fn every_kind_has_a_code_of_its_name() {
    for (number, kind) in (1..).zip(kinds()) {
        assert_eq!(name_of(number).as_deref(), Some(kind.code()));
        assert_eq!(sessile_code::of(&kind) as u32, number, "{kind:?}");
    }
    assert_eq!(name_of(0).as_deref(), Some("ok"));
    let panic = sessile_code::SESSILE_PANIC as u32;
    assert_eq!(panic as usize, kinds().len() + 1);
    assert_eq!((name_of(panic).as_deref(), name_of(panic + 1)), (Some("panic"), None));
}

/// The header numbers its enumerators by their order.
#[test]
fn the_header_has_the_codes_in_their_order() {
    let header = include_str!("../include/sessile.h");
    let (before, _) = header.split_once("} sessile_code;").unwrap();
    let (_, list) = before.rsplit_once("typedef enum {").unwrap();
    let enumerators: Vec<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(|line| line.trim_end_matches(','))
        .collect();
    let names = (0..).map_while(name_of);
    let expected = names.map(|name| format!("SESSILE_{}", name.to_uppercase().replace('-', "_")));
    assert_eq!(enumerators, expected.collect::<Vec<_>>());
}

/// `SESSILE_BLESS=1` writes it anew.
#[test]
fn the_table_of_errors_is_the_one_of_the_source() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/capi/ERRORS.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let (begin, end) = ("<!-- table of errors, generated -->\n", "<!-- end table of errors");
    let (before, rest) = text.split_once(begin).unwrap();
    let (there, after) = rest.split_once(end).unwrap();
    if std::env::var_os("SESSILE_BLESS").is_some() {
        std::fs::write(&file, format!("{before}{begin}{}{end}{after}", table())).unwrap();
        return;
    }
    assert!(there == table(), "run SESSILE_BLESS=1 cargo test -p sessile-capi --test kinds");
}

#[test]
fn python_has_an_exception_for_each_kind() {
    let file = "../../bindings/python/python/sessile/errors.py";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(file).unwrap();
    for kind in kinds() {
        let class = format!("class {}(Error):", class_name(kind.code()));
        assert!(text.contains(&class), "{class}");
    }
}
