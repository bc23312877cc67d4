//! `ops` in the form that a hoster published: payloads are drawn in the timed part.
//!
//! bench/EXPERIMENTS.md says why the corrected form differs. Stored payloads stay verifiable: those
//! drawn in the timed part are thrown away.

use std::time::Duration;

use crate::selection::{Choice, ContenderSource, Selection};

/// Ttl of created sessions; those that are read and changed keep the usual one.
pub(crate) const CREATED_TTL: Duration = Duration::from_secs(60);
/// Servers to which the published program connected anew for each query. Our stores set up a
/// connection with more than that program did, so their rows would say nothing about it.
const DATABASES: [&str; 2] = ["mysql", "postgres"];
/// What drawing a payload costs, and the operations of the published program.
const REFERENCES: [&str; 3] = ["null", "files-flock", "redis-setex"];

pub(crate) fn contenders(selection: Selection) -> Selection {
    let mut published = Selection { choices: Vec::new(), left_out: selection.left_out };
    for choice in selection.choices {
        let obstacle = obstacle(&choice).map(str::to_owned);
        published.add(choice, obstacle);
    }
    published
}

fn obstacle(choice: &Choice) -> Option<&'static str> {
    match choice.target {
        ContenderSource::Reference(reference) if !REFERENCES.contains(&reference.name) => {
            Some("the published measurement had no such row; leave --as-published out")
        }
        ContenderSource::Fixture(entry, ..) | ContenderSource::Url(entry, _)
            if DATABASES.contains(&entry.name) =>
        {
            Some(
                "the published program connected anew for each query, and our store sets up each \
                 connection with more than that program did",
            )
        }
        _ if choice.reconnects => Some("the published measurement kept this connection"),
        _ => None,
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
    fn databases_and_what_connects_anew_are_left_out() {
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
        assert_eq!(titles, ["files", "redis"]);
        let left_out: Vec<&str> = published.left_out.iter().map(|it| it.store.as_str()).collect();
        assert_eq!(left_out, ["mysql", "mysql", "redis"]);
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
