//! `include/sessile.h` equals cbindgen's output and compiles as C and C++.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn header() -> PathBuf {
    here().join("include/sessile.h")
}

/// Fails when a function, a type or a comment has changed in the source only. `SESSILE_BLESS=1`
/// rewrites the header.
#[test]
fn the_header_is_the_one_of_the_source() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let made = cbindgen::Builder::new().with_crate(here()).with_config(config).generate().unwrap();
    if std::env::var_os("SESSILE_BLESS").is_some() {
        made.write_to_file(header());
    }
    let mut text = Vec::new();
    made.write(&mut text);
    let there = std::fs::read_to_string(header()).unwrap();
    assert!(
        there.as_bytes() == text,
        "run SESSILE_BLESS=1 cargo test -p sessile-capi --test header"
    );
}

#[test]
fn c_and_cpp_compilers_take_the_header() {
    for (language, standard) in [("c", "c99"), ("c", "c23"), ("c++", "c++11")] {
        let arguments =
            ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", language];
        let standard_option = format!("-std={}", if standard == "c23" { "c2x" } else { standard });
        let output =
            Command::new("cc").args(arguments).arg(standard_option).arg(header()).output().unwrap();
        let missing = String::from_utf8_lossy(&output.stderr).contains("cc1plus");
        assert!(
            output.status.success() || missing,
            "{standard}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
