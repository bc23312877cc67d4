//! The manual: `docs/` without `docs/decisions/`. It stays small, its links lead somewhere, and
//! what it names exists: options of store URLs, settings of PHP, kinds and texts of errors.
//!
//! `UPDATE_MANUAL=1 cargo test -p sessile-tests --test manual` rewrites the list of messages. Not
//! here: paths and make targets (`documents.rs`), command lines (`commands.rs`), and the page
//! `docs/command-line.md`, which the command itself generates.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows test functions only, and these serve tests only"
)]

mod error_texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sessile_stores::{layouts::LAYOUTS, registry};
use sessile_tests::markdown::{self, Piece, code_lines, code_spans, links};
use sessile_tests::{SourceFile, files, root};

const PAGES_MAX: usize = 20;
const WORDS_OF_A_PAGE_MAX: usize = 2_500;
const WORDS_MAX: usize = 30_000;
const README_LINES_MAX: usize = 120;
const MESSAGES: &str = "messages, generated";
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";

fn pages() -> Vec<SourceFile> {
    let is_page = |path: &str| path.strip_prefix("docs/").is_some_and(|name| !name.contains('/'));
    let pages = files().unwrap().into_iter();
    let pages: Vec<_> =
        pages.filter(|file| is_page(&file.path) && file.ends_with(&[".md"])).collect();
    assert!(pages.len() > 10, "the manual is gone, so this checks nothing");
    pages
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn the_manual_is_short_enough_to_be_read() {
    let pages = pages();
    assert!(pages.len() <= PAGES_MAX, "{} pages: merge some, at most {PAGES_MAX}", pages.len());
    let long = pages.iter().filter(|page| words(&page.text) >= WORDS_OF_A_PAGE_MAX);
    let long: Vec<String> =
        long.map(|page| format!("{}: {} words", page.path, words(&page.text))).collect();
    assert!(long.is_empty(), "{WORDS_OF_A_PAGE_MAX} words are too many: {long:?}");
    let all: usize = pages.iter().map(|page| words(&page.text)).sum();
    assert!(all <= WORDS_MAX, "{all} words in docs/, of {WORDS_MAX}");
    let lines = text_of("README.md").lines().count();
    assert!(lines <= README_LINES_MAX, "README.md has {lines} lines, of {README_LINES_MAX}");
}

#[test]
fn the_index_leads_to_every_page() {
    let index = text_of("docs/README.md");
    let linked: BTreeSet<&str> = links(&index).into_iter().map(|link| link.text).collect();
    let pages = pages();
    let names = pages.iter().filter_map(|page| page.path.strip_prefix("docs/"));
    let missing: Vec<&str> =
        names.filter(|name| *name != "README.md" && !linked.contains(name)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "docs/README.md does not name these");
}

/// The anchors of the headings, as GitHub makes them: a second one of a name gets `-1`.
fn anchors(document: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut fenced = false;
    let mut anchors = BTreeSet::new();
    for line in document.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(name.clone()).or_default();
        anchors.insert(if *times == 0 { name } else { format!("{name}-{times}") });
        *times += 1;
    }
    anchors
}

/// The links of a document to headings that do not exist, here or in another document.
fn dead_anchors(file: &SourceFile) -> Vec<String> {
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let is_dead = |link: &Piece<'_>| {
        let Some((path, anchor)) = link.text.split_once('#') else { return false };
        let text = match path {
            "" => file.text.clone(),
            path => std::fs::read_to_string(root().join(folder).join(path)).unwrap_or_default(),
        };
        !link.text.contains("://") && !anchors(&text).contains(anchor)
    };
    let dead = links(&file.text).into_iter().filter(is_dead);
    dead.map(|link| format!("{}:{}: {} leads nowhere", file.path, link.line, link.text)).collect()
}

#[test]
fn links_lead_to_headings_that_exist() {
    let documents = files().unwrap().into_iter().filter(|file| file.ends_with(&[".md"]));
    let dead: Vec<String> = documents.flat_map(|file| dead_anchors(&file)).collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    let text = "# A `b`?\n## A b\n```\n# no\n```\n[x](#a-b) [y](#a-b-1) [z](#no)".to_owned();
    let file = SourceFile { path: "docs/x.md".to_owned(), text };
    assert_eq!(dead_anchors(&file).len(), 1, "{:?}", anchors(&file.text));
}

/// The store URLs in code of a document: scheme, option names, line.
fn url_options(document: &str) -> Vec<(String, Vec<String>, usize)> {
    let pieces = code_spans(document).into_iter().chain(code_lines(document));
    let urls = pieces.flat_map(|piece| {
        piece.text.split([' ', '\'', '"', '|']).map(move |word| (word.to_owned(), piece.line))
    });
    let options = urls.filter_map(|(url, line)| {
        let (scheme, rest) = url.split_once(':')?;
        let (_, options) = rest.split_once('?')?;
        let names = options.split('&').filter_map(|option| Some(option.split_once('=')?.0));
        Some((scheme.to_owned(), names.map(str::to_owned).collect(), line))
    });
    options.collect()
}

/// The options that a URL with this scheme takes, or `None` for a scheme of nobody.
fn options_of(scheme: &str) -> Option<BTreeSet<&'static str>> {
    let entry = registry::STORES.iter().find(|entry| entry.schemes.contains(&scheme));
    let of_store = |entry: &registry::StoreEntry| {
        let all = entry.options.iter().chain(registry::COMMON_OPTIONS);
        all.map(|option| option.name).collect::<BTreeSet<_>>()
    };
    if let Some(entry) = entry {
        return Some(of_store(entry));
    }
    let (_, place) = scheme.split_once('+')?;
    let layouts = LAYOUTS.iter().filter(|layout| layout.example.starts_with(scheme));
    let own = layouts.flat_map(|layout| layout.options.iter().map(|option| option.name));
    let place = registry::STORES.iter().find(|entry| entry.schemes.contains(&place))?;
    Some(of_store(place).into_iter().chain(own).collect())
}

fn unknown_options(file: &SourceFile) -> Vec<String> {
    let mut faults = Vec::new();
    for (scheme, names, line) in url_options(&file.text) {
        let Some(known) = options_of(&scheme) else { continue };
        let unknown = names.iter().filter(|name| !known.contains(name.as_str()));
        faults.extend(
            unknown.map(|name| format!("{}:{line}: {scheme}: has no option {name}", file.path)),
        );
    }
    faults
}

#[test]
fn the_options_in_store_urls_exist() {
    let documents = files().unwrap().into_iter();
    let documents =
        documents.filter(|file| file.ends_with(&[".md"]) && file.path != "CHANGELOG.md");
    let faults: Vec<String> = documents.flat_map(|file| unknown_options(&file)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let file = |text: &str| SourceFile { path: "docs/x.md".to_owned(), text: text.to_owned() };
    assert_eq!(unknown_options(&file("`sessile:/a?durabilty=1s&ids=hashed`")).len(), 1);
    assert!(unknown_options(&file("`https://example.org/?a=b`")).is_empty());
}

/// Where the options of each store have their table.
const OPTION_TABLES: &[(&str, &[&str])] = &[
    ("docs/one-host.md", &["sessile", "files", "sqlite"]),
    ("docs/servers.md", &["mysql", "postgres", "redis", "memcached"]),
    ("docs/limits.md", &["route"]),
    ("docs/quick-start.md", &["migrate"]),
];

#[test]
fn every_option_of_a_store_is_in_the_manual() {
    for (page, stores) in OPTION_TABLES {
        let text = text_of(page);
        let spans: BTreeSet<&str> = code_spans(&text).into_iter().map(|span| span.text).collect();
        let named = |name: &str| {
            spans.contains(name) || spans.iter().any(|span| span.contains(&format!("{name}=")))
        };
        for store in *stores {
            let entry = registry::STORES.iter().find(|entry| entry.name == *store).unwrap();
            let missing: Vec<&str> =
                entry.options.iter().map(|it| it.name).filter(|name| !named(name)).collect();
            assert!(missing.is_empty(), "{page} lacks options of {store}: {missing:?}");
        }
    }
    let anywhere: String = pages().iter().map(|page| page.text.as_str()).collect();
    let anywhere = anywhere + &text_of("SECURITY.md");
    let common = registry::COMMON_OPTIONS.iter().map(|option| option.name);
    let missing: Vec<&str> =
        common.filter(|name| !anywhere.contains(&format!("`{name}"))).collect();
    assert!(missing.is_empty(), "no page of the manual names {missing:?}");
    let with_a_page: BTreeSet<&str> =
        OPTION_TABLES.iter().flat_map(|(_, stores)| stores.iter().copied()).collect();
    let without = registry::STORES.iter().filter(|entry| !with_a_page.contains(entry.name));
    let without: Vec<&str> =
        without.filter(|entry| !entry.options.is_empty()).map(|entry| entry.name).collect();
    assert!(without.is_empty(), "no page of the manual has the options of {without:?}");
}

/// The names of PHP's settings behind `sessile.` in a text.
fn settings(text: &str) -> BTreeSet<String> {
    let after = text.split("sessile.").skip(1);
    let names = after.map(|rest| {
        rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>()
    });
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_settings_of_php_are_those_of_the_extension() {
    let code = text_of("bindings/php/sessile.c");
    let block = code.split("PHP_INI_BEGIN()").nth(1).unwrap();
    let block = block.split("PHP_INI_END()").next().unwrap();
    let calls = ["SECONDS(", "WORD(", "STD_PHP_INI_ENTRY(", "STD_PHP_INI_BOOLEAN("];
    let lines = block.lines().map(str::trim_start);
    let first = lines.filter(|line| calls.iter().any(|call| line.starts_with(call)));
    let names = first.filter_map(|line| line.split('"').nth(1));
    let declared: BTreeSet<&str> =
        names.map(|name| name.strip_prefix("sessile.").unwrap_or(name)).collect();
    assert!(declared.len() > 8, "{declared:?}");
    let page = text_of("docs/php.md");
    let undocumented: Vec<&&str> =
        declared.iter().filter(|name| !page.contains(&format!("| `sessile.{name}` |"))).collect();
    assert!(undocumented.is_empty(), "docs/php.md has no row for {undocumented:?}");
    for page in ["docs/php.md", "docs/php-products.md", "docs/web-servers.md"] {
        let text = text_of(page);
        let spans = code_spans(&text).into_iter().map(|span| span.text);
        let lines = code_lines(&text).into_iter().map(|line| line.text);
        let named = spans.chain(lines).filter(|it| it.starts_with("sessile."));
        let unknown: Vec<String> = named
            .flat_map(settings)
            .filter(|name| !declared.contains(name.as_str()) && !is_file(name))
            .collect();
        assert!(unknown.is_empty(), "{page}: the extension has no setting {unknown:?}");
    }
}

/// What stands behind `sessile.` in names of files.
fn is_file(name: &str) -> bool {
    ["inc", "ini", "so"].contains(&name)
}

/// Pages with tables of options of a language, and where the options are declared.
const LANGUAGES: &[(&str, &str)] = &[
    ("docs/python.md", "bindings/python/python/sessile/"),
    ("docs/node.md", "bindings/node/types/"),
];

#[test]
fn the_options_of_a_language_are_in_its_code() {
    let files = files().unwrap();
    for (page, folder) in LANGUAGES {
        let code: String = files
            .iter()
            .filter(|file| file.path.starts_with(folder))
            .map(|file| file.text.as_str())
            .collect();
        let text = text_of(page);
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
        let names: Vec<&str> = rows.filter_map(|row| Some(row.split_once('`')?.0)).collect();
        let is_option = |name: &&str| name.chars().all(|c| c.is_ascii_alphabetic() || c == '_');
        let names: Vec<&str> = names.into_iter().filter(is_option).collect();
        assert!(names.len() > 5, "{page}: {names:?}");
        let unknown: Vec<&&str> = names.iter().filter(|name| !code.contains(**name)).collect();
        assert!(unknown.is_empty(), "{page}: nothing in {folder} knows {unknown:?}");
    }
}

/// Pages whose flags are those of the command; on others they may be those of other programs.
const PAGES_WITH_FLAGS: &[&str] =
    &["docs/operations.md", "docs/benchmark.md", "docs/limits.md", "docs/sessile-or-redis.md"];

#[test]
fn the_flags_of_the_command_exist() {
    let known = text_of("docs/command-line.md");
    let known: BTreeSet<&str> = code_spans(&known)
        .into_iter()
        .filter_map(|span| span.text.split_whitespace().next())
        .collect();
    assert!(known.contains("--json") && known.contains("--quick"), "{known:?}");
    for page in PAGES_WITH_FLAGS {
        let text = text_of(page);
        let spans = code_spans(&text).into_iter();
        let flags = spans.filter(|span| span.text.starts_with("--"));
        let flag = |span: Piece<'_>| span.text.split([' ', '=']).next().map(str::to_owned);
        let unknown: Vec<String> =
            flags.filter_map(flag).filter(|flag| !known.contains(flag.as_str())).collect();
        assert!(unknown.is_empty(), "{page}: the command has no {unknown:?}");
    }
}

/// The kinds of errors, from the table that a test of `crates/capi` keeps.
fn kinds() -> Vec<String> {
    let table = text_of("crates/capi/ERRORS.md");
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect()
}

#[test]
fn every_kind_of_error_has_an_entry() {
    let page = text_of(TROUBLESHOOTING);
    let kinds = kinds();
    assert!(kinds.len() > 10, "{kinds:?}");
    let missing: Vec<&String> =
        kinds.iter().filter(|kind| !page.contains(&format!("\n## `{kind}`\n\n"))).collect();
    assert!(missing.is_empty(), "{TROUBLESHOOTING} has no entry for {missing:?}");
}

#[test]
fn every_text_of_an_error_is_in_the_list_of_messages() {
    let page = text_of(TROUBLESHOOTING);
    let (range, list) = markdown::marked(&page, MESSAGES).unwrap();
    let wanted = error_texts::list(&files().unwrap());
    assert!(wanted.lines().count() > 10, "no messages are found, so this checks nothing");
    if std::env::var_os("UPDATE_MANUAL").is_some_and(|value| value == "1") {
        let mut text = page.clone();
        text.replace_range(range, &wanted);
        std::fs::write(root().join(TROUBLESHOOTING), text).unwrap();
        return;
    }
    assert!(
        list == wanted,
        "the list of messages in {TROUBLESHOOTING} is not that of the code; run \
         `UPDATE_MANUAL=1 cargo test -p sessile-tests --test manual`"
    );
}
