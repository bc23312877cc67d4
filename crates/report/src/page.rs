//! The page around the sections: head, contents, landmarks, foot.
//!
//! It owns the content security policy: the page loads nothing, and only its own style sheet
//! applies, by digest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sessile_results::number::bytes;
use sha2::{Digest, Sha256};

use crate::missing;
use crate::runs::PageReports;
use crate::section::Section;

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "Session stores, measured";

/// `overview` is the first screen, below the title.
pub(crate) fn page(runs: &PageReports<'_>, overview: &Markup, sections: &[Section]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(format!("sessile {}", env!("CARGO_PKG_VERSION")));
                title { (TITLE) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the results" }
                header { (masthead(runs, overview)) }
                nav aria-label="Contents" {
                    ol {
                        @for section in sections {
                            li { a href=(format!("#{}", group_id(section))) { (section.title) } }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    @for section in sections {
                        (drawn(section))
                    }
                }
                footer {
                    p {
                        "Made by " code { "sessile bench" } ". It loads nothing from anywhere: "
                        "save it, mail it, publish it as it is."
                    }
                }
            }
        }
    }
}

/// Of a section with several parts; one with a single part is that part.
fn group_id(section: &Section) -> String {
    let first = section.parts.first().map_or("", |part| part.id);
    if section.parts.len() > 1 { format!("{first}-and-more") } else { first.to_owned() }
}

fn drawn(section: &Section) -> Markup {
    let several = section.parts.len() > 1;
    html! {
        div.group {
            @if several { h2 id=(group_id(section)) { (section.title) } }
            @for part in &section.parts {
                @let title = format!("{}-title", part.id);
                section id=(part.id) aria-labelledby=(title) {
                    @if several { h3.part id=(title) { (part.title) } }
                    @else { h2 id=(title) { (section.title) } }
                    (part.body)
                }
            }
        }
    }
}

/// Scripts, images, fonts and frames have no source. The style sheet is allowed by its digest.
fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
}

fn masthead(runs: &PageReports<'_>, overview: &Markup) -> Markup {
    let experiments: Vec<&str> = runs.experiments().into_iter().collect();
    let rows: usize = runs.reports.iter().map(|report| report.results.len()).sum();
    html! {
        h1 { (TITLE) }
        @if rows == 0 { p.lead { "Nothing was measured yet." } }
        (overview)
        (missing::notice(runs))
        @if rows > 0 {
            p.machine {
                (sessile_results::number::with_noun(rows, "row")) " of "
                (sessile_results::number::with_noun(experiments.len(), "experiment")) "."
            }
        }
        @for (machine, _) in runs.machines() {
            p.machine {
                (machine.cpu) ", " (machine.cores) " logical processors, "
                (bytes(machine.memory_bytes as f64)) " of memory, "
                (machine.kernel) ", " (machine.system) ", disk " (machine.disk_file_system)
                "; Sessile " (machine.sessile) ", " (machine.build) " build"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_allows_this_style_sheet_and_nothing_else() {
        let policy = policy();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    }

    #[test]
    fn the_style_sheet_asks_for_nothing() {
        for word in ["url(", "@import", "http"] {
            assert!(!STYLE.contains(word), "{word}");
        }
    }
}
