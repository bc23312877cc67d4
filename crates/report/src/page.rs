//! The page around the sections: head, contents, landmarks, foot.
//!
//! It owns the content security policy: the page loads nothing, and only its own style sheet
//! applies, by digest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::missing;
use crate::number::bytes;
use crate::runs::PageReports;
use crate::section::Section;

const STYLE: &str = include_str!("style.css");
const TITLE: &str = "Session stores, measured";

pub(crate) fn page(runs: &PageReports<'_>, sections: &[Section]) -> Markup {
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
                header { (masthead(runs)) }
                nav aria-label="Contents" {
                    ol {
                        @for section in sections {
                            li { a href=(format!("#{}", section.id)) { (section.title) } }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    @for section in sections {
                        section id=(section.id) aria-labelledby=(format!("{}-title", section.id)) {
                            h2 id=(format!("{}-title", section.id)) { (section.title) }
                            (section.body)
                        }
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

/// Scripts, images, fonts and frames have no source. The style sheet is allowed by its digest.
fn policy() -> String {
    let digest = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'")
}

fn masthead(runs: &PageReports<'_>) -> Markup {
    let experiments: Vec<&str> = runs.experiments().into_iter().collect();
    let rows: usize = runs.reports.iter().map(|report| report.results.len()).sum();
    html! {
        h1 { (TITLE) }
        p.lead {
            "Which store should keep the sessions of a web application on this machine? "
            @if rows == 0 { "Nothing was measured yet." }
            @else {
                (crate::number::with_noun(rows, "row")) " of "
                (crate::number::with_noun(experiments.len(), "experiment")) ": "
                (experiments.join(", "))
                "."
            }
        }
        (missing::notice(runs))
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
