//! `ops` in the form that a hoster published: databases reconnect for each operation, payloads are
//! drawn in the timed part.
//!
//! bench/EXPERIMENTS.md says why the corrected form differs. Stored payloads stay verifiable: those
//! drawn in the timed part are thrown away.

use std::time::Duration;

use crate::selection::{Choice, ContenderSource, Selection};

/// Ttl of created sessions; those that are read and changed keep the usual one.
pub(crate) const CREATED_TTL: Duration = Duration::from_secs(60);
/// Stores to which the published program reconnected for each operation.
const DATABASES: [&str; 2] = ["mysql", "postgres"];
/// What drawing a payload costs, and the operations of the published program.
const REFERENCES: [&str; 3] = ["null", "files-flock", "redis-setex"];

pub(crate) fn contenders(selection: Selection) -> Selection {
    let mut published = Selection { choices: Vec::new(), left_out: selection.left_out };
    for choice in selection.choices {
        let known = |other: &Choice| other.title() == choice.title();
        match as_published(choice.clone()) {
            Ok(choice) if published.choices.iter().any(|other| other.title() == choice.title()) => {
            }
            Ok(choice) => published.choices.push(choice),
            Err(_) if published.choices.iter().any(known) => {}
            Err(reason) => published.left_out.push(choice.left_out(reason)),
        }
    }
    published
}

fn as_published(choice: Choice) -> Result<Choice, &'static str> {
    match choice.target {
        ContenderSource::Reference(reference) if !REFERENCES.contains(&reference.name) => {
            Err("the published measurement had no such row; leave --as-published out")
        }
        ContenderSource::Fixture(entry, ..) if DATABASES.contains(&entry.name) => Ok(Choice {
            variant: crate::selection::RECONNECT.to_owned(),
            reconnects: true,
            ..choice
        }),
        ContenderSource::Url(entry, _) if DATABASES.contains(&entry.name) => Err(
            "as published each operation connects to a database anew, which is measured on private \
             servers only",
        ),
        _ if choice.reconnects => Err("the published measurement kept this connection"),
        _ => Ok(choice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::fixture_choice;
    use sessile_core::Durability;
    use sessile_results::experiment::Experiment;
    use sessile_stores::registry;

    #[test]
    fn only_databases_connect_anew_and_each_is_there_once() {
        let choice = |name: &str, reconnects: bool| {
            let entry = registry::by_name(name).unwrap();
            let choice = fixture_choice(entry, &entry.fixtures[0], Durability::None);
            let variant = if reconnects { "reconnect".to_owned() } else { choice.variant.clone() };
            Choice { variant, reconnects, ..choice }
        };
        let all = [
            ("files", false),
            ("mysql", false),
            ("mysql", true),
            ("redis", false),
            ("redis", true),
        ];
        let choices = all.map(|(name, reconnects)| choice(name, reconnects)).to_vec();
        let published = contenders(Selection { choices, left_out: Vec::new() });
        let titles: Vec<String> = published.choices.iter().map(Choice::title).collect();
        assert_eq!(titles, ["files", "mysql#reconnect", "redis"]);
        assert!(
            published.choices.iter().all(|choice| choice.reconnects == (choice.store == "mysql"))
        );
        assert_eq!(published.left_out.len(), 1, "{:?}", published.left_out);
    }

    #[test]
    fn of_the_reference_rows_the_harness_stays() {
        let names = ["null", "limit"].map(str::to_owned);
        let chosen = crate::selection::select(&names, Experiment::Ops, Durability::None).unwrap();
        let published = contenders(chosen);
        assert_eq!(published.choices.iter().map(Choice::title).collect::<Vec<String>>(), ["null"]);
        assert!(published.left_out[0].reason.contains("no such row"), "{:?}", published.left_out);
    }
}
