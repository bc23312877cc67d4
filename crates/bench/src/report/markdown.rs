//! Reports as Markdown: the tables of the terminal, with machine and command below.
//!
//! The alternate format (`{:#}`) of a report is Markdown; these functions write tables in either
//! form.

use std::fmt;

use comfy_table::{ContentArrangement, Table, presets};

use crate::collection::Collection;
use crate::report::Report;

pub(super) fn write_section(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    table: &Table,
) -> fmt::Result {
    if f.alternate() {
        writeln!(f, "\n**{}**\n", heading.replace('\n', "; "))?;
    } else {
        writeln!(f, "\n{heading}")?;
    }
    write_table(f, table)
}

pub(super) fn write_table(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    // The empty line keeps the next text from becoming a row.
    if f.alternate() { writeln!(f, "{}\n", plain(table)) } else { writeln!(f, "{table}") }
}

pub(super) fn write_preformatted(
    f: &mut fmt::Formatter<'_>,
    heading: &str,
    text: &str,
) -> fmt::Result {
    if f.alternate() {
        writeln!(f, "\n**{heading}**\n\n{FENCE}text\n{}\n{FENCE}\n", text.trim_end())
    } else {
        write!(f, "\n{heading}\n{text}")
    }
}

impl Report {
    /// The tables, followed by command, machine and versions.
    pub fn to_markdown(&self) -> String {
        let title =
            self.results.first().map_or_else(|| "nothing".to_owned(), |row| self.title_of(row));
        let environment = &self.environment;
        let versions: Vec<String> = environment
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        format!(
            "### sessile bench {title}\n\n{}\n\n- `{}`, seed {}\n- {}, {} cores, {} GiB, {}, {}, \
             disk {} ({})\n- sessile {}, commit {}, {} build ({}); {}\n{}",
            lists(&format!("{self:#}")),
            self.command,
            self.seed,
            environment.cpu,
            environment.cores,
            environment.memory_bytes >> 30,
            environment.kernel,
            environment.system,
            environment.disk_file_system,
            environment.disk_mount_options,
            environment.sessile,
            environment.commit,
            environment.build,
            environment.build_flags,
            versions.join(", "),
            environment.servers_text("- ")
        )
    }
}

impl Collection {
    /// All reports, and what is missing.
    pub fn to_markdown(&self) -> String {
        let mut parts: Vec<String> = self.runs.iter().map(Report::to_markdown).collect();
        let missing: Vec<String> = self
            .left_out
            .iter()
            .map(|left| format!("not here: {}: {}\n", left.experiment, left.reason))
            .collect();
        if !missing.is_empty() {
            parts.push(format!("{}\n", lists(&missing.concat())));
        }
        parts.join("\n")
    }
}

const FENCE: &str = "```";

/// Makes other lines list items, because consecutive lines are one paragraph in Markdown.
fn lists(text: &str) -> String {
    let mut in_picture = false;
    let lines = text.lines().map(|line| {
        let fence = line.starts_with(FENCE);
        in_picture ^= fence;
        if in_picture || fence || line.is_empty() || line.starts_with(['|', '*']) {
            line.to_owned()
        } else {
            format!("- {}", line.replace('<', "\\<"))
        }
    });
    lines.collect::<Vec<String>>().join("\n").trim_matches('\n').to_owned()
}

fn plain(table: &Table) -> Table {
    let texts = |row: &comfy_table::Row, newline: &str| -> Vec<String> {
        let escaped =
            |text: String| text.replace('\n', newline).replace('|', "\\|").replace('<', "\\<");
        row.cell_iter().map(|cell| escaped(cell.content())).collect()
    };
    let mut plain = Table::new();
    plain.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    if let Some(header) = table.header() {
        plain.set_header(texts(header, "")); // broken before a `#` to keep columns narrow
    }
    for row in table.row_iter() {
        plain.add_row(texts(row, " "));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::{new_table, right_aligned};
    use crate::report::{Modes, Row};

    /// A short run of every experiment but `rebuild`.
    const SMALL: &str = include_str!("../../../report/tests/small.json");

    #[test]
    fn every_row_is_in_a_table_and_the_command_and_the_machine_are_below_it() {
        let small = Collection::from_json(SMALL).unwrap();
        assert!(small.runs.len() > 5, "the file has lost its experiments");
        for report in &small.runs {
            let text = report.to_markdown();
            // What APCu lost when its memory was full is told in a sentence.
            for row in
                report.results.iter().filter(|row| row.web.is_none_or(|web| web.overflow.is_none()))
            {
                assert!(
                    text.contains(&format!("| {} ", row.title())),
                    "{} {}: {text}",
                    row.title(),
                    row.op
                );
            }
            let lines: Vec<&str> = text.lines().collect();
            let torn =
                lines.windows(2).find(|pair| pair[0].starts_with('|') && pair[1].starts_with('-'));
            assert_eq!(torn, None, "an item of a list would be a row of the table above it");
            let below = text.rfind("|\n").unwrap();
            for words in [&report.command, &report.environment.cpu, &report.environment.build] {
                assert!(text.rfind(words).is_some_and(|place| place > below), "{words}: {text}");
            }
        }
    }

    #[test]
    fn no_cell_ends_early_and_no_line_is_taken_for_html() {
        let mut table = new_table(&["php-memcached\n#8m", "why"]);
        table.add_row(vec![right_aligned("1 234"), right_aligned("a | b\nin <path>")]);
        let text = plain(&table).to_string();
        assert!(
            text.contains("| php-memcached#8m |") && text.contains("a \\| b in \\<path> |"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(
            lists("\nFAILED: <id> is gone\n| a | b |\n"),
            "- FAILED: \\<id> is gone\n| a | b |"
        );
    }

    /// In a paragraph the columns of a histogram run into each other.
    #[test]
    fn histograms_keep_their_columns_and_what_is_said_of_them_is_a_list() {
        let mut report = Collection::from_json(SMALL).unwrap().runs.remove(0);
        let histogram =
            crate::report::Buckets { bounds_us: vec![1, 2, 5], counts: vec![7, 0, 0, 3] };
        let modes = Some(Modes { modes: 2, sweeping: 3, ..Modes::default() });
        let row = Row {
            store: "swept".into(),
            variant: "default".into(),
            op: "start".into(),
            ..Row::default()
        };
        let row = Row { experiment: "gc".into(), kind: "socket".into(), ..row };
        report.results = vec![Row { histogram: Some(histogram), modes, ..row }];
        let text = report.to_markdown();
        let picture = text.split(FENCE).nth(1).unwrap();
        assert!(picture.starts_with("text\n") && picture.contains("< 1 us"), "{text}");
        assert!(text.contains("\n- start: two modes") && !text.contains("- ```"), "{text}");
        assert!(text.starts_with("### sessile bench gc\n"), "{text}");
    }

    #[test]
    fn what_is_missing_of_a_series_is_told() {
        let left_out = r#"{ "experiment": "gc", "reason": "no time" }"#;
        let text = format!(r#"{{ "schema": 1, "runs": [], "left_out": [{left_out}] }}"#);
        assert_eq!(
            Collection::from_json(&text).unwrap().to_markdown(),
            "- not here: gc: no time\n"
        );
    }
}
