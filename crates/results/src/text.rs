//! Writes reports and tables for the terminal and as Markdown (the alternate format, `{:#}`).

use std::fmt;

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use crate::collection::Collection;
use crate::table::{ResultTable, TableCell};
use crate::workload::Workload;
use crate::{Outcome, Report, Row};

const COLUMNS: usize = 100;
/// Content up to this width is never broken: neither names nor numbers may be torn.
const WHOLE: usize = 28;
/// Words of headings up to this width are not broken either.
const WHOLE_HEADING: usize = 12;

impl fmt::Display for ResultTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let markdown = f.alternate();
        match (self.caption.as_str(), markdown) {
            ("", _) => {}
            (caption, true) => writeln!(f, "**{}**\n", escaped(caption))?,
            (caption, false) => writeln!(f, "{}", wrapped(caption))?,
        }
        if markdown {
            // The empty line keeps the next text from becoming a row.
            writeln!(f, "{}\n", self.as_markdown())?;
        } else {
            writeln!(f, "{}", self.as_text())?;
        }
        self.notes.iter().try_for_each(|note| write_line(f, note.words()))
    }
}

impl ResultTable {
    fn as_text(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(COLUMNS as u16).set_header(self.columns.clone());
        for row in &self.rows {
            table.add_row(row.cells.iter().map(|cell| {
                let is_text = matches!(cell, TableCell::Text(_));
                let side = if is_text { CellAlignment::Left } else { CellAlignment::Right };
                Cell::new(cell.words()).set_alignment(side)
            }));
        }
        for (place, column) in table.column_iter_mut().enumerate() {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(place));
            let content = cells.map(|cell| cell.words().chars().count());
            let words = self.columns.get(place).map_or("", String::as_str).split(' ');
            let heading = words.map(|word| word.chars().count().min(WHOLE_HEADING));
            let whole = content.filter(|width| *width <= WHOLE).chain(heading).max().unwrap_or(0);
            let padding = 2;
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
                (whole + padding) as u16,
            )));
        }
        table
    }

    fn as_markdown(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|column| escaped(column)));
        for row in &self.rows {
            table.add_row(row.cells.iter().map(|cell| escaped(cell.words())));
        }
        table
    }
}

impl TableCell {
    pub fn words(&self) -> &str {
        match self {
            TableCell::Text(text) | TableCell::Figure(text) | TableCell::Bad(text) => text,
            TableCell::Empty => "",
        }
    }
}

/// No cell ends early, and no text is taken for HTML.
fn escaped(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|").replace('<', "\\<")
}

/// In Markdown consecutive lines are one paragraph, so they are items of a list.
fn write_line(f: &mut fmt::Formatter<'_>, line: &str) -> fmt::Result {
    if f.alternate() {
        writeln!(f, "- {}", line.replace('<', "\\<"))
    } else {
        writeln!(f, "{line}")
    }
}

/// Broken at spaces, so that no line is wider than a table.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= COLUMNS;
            wrapped.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped
}

/// The machine stands above the tables for the terminal, and below them in Markdown.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            let first = self.results.first();
            let title = first.map_or_else(|| "nothing".to_owned(), |row| self.title_of(row));
            writeln!(f, "### sessile bench {title}\n")?;
        } else {
            self.machine().iter().try_for_each(|line| writeln!(f, "{line}"))?;
        }
        write_line(f, &format!("{}, seed {}", self.conditions(&self.rows()), self.seed))?;
        if let Some(workload) = self.workload().and_then(Workload::from_name) {
            let words = format!("workload {}: {}", workload.name(), workload.description());
            write_line(f, &words)?;
        }
        for table in self.tables() {
            writeln!(f)?;
            fmt::Display::fmt(&table, f)?;
        }
        for left in &self.left_out {
            write_line(f, &format!("left out: {}: {}", left.title(), left.reason))?;
        }
        for row in self.bad_rows() {
            write_line(f, &format!("FAILED: {}", row.failure_line()))?;
        }
        for warning in &self.warnings {
            write_line(f, &format!("note: {warning}"))?;
        }
        if f.alternate() {
            write!(f, "\n- `{}`, seed {}\n", self.command, self.seed)?;
            self.machine().iter().try_for_each(|line| writeln!(f, "- {line}"))?;
        }
        Ok(())
    }
}

impl Row {
    pub fn failure_line(&self) -> String {
        let Outcome { errors, misses, lost, .. } = self.outcome;
        let (row, why) = (self.in_words(), self.outcome.why());
        format!("{row}: {errors} errors, {misses} misses, {lost} lost: {why}")
    }
}

impl Report {
    pub fn to_markdown(&self) -> String {
        format!("{self:#}")
    }

    fn machine(&self) -> Vec<String> {
        let it = &self.environment;
        let versions = it.versions.iter().map(|(name, version)| format!("{name} {version}"));
        let versions = versions.collect::<Vec<String>>().join(", ");
        let (memory, disk) = (it.memory_bytes >> 30, &it.disk_file_system);
        let mut lines = vec![
            format!("{}, {} cores, {memory} GiB, {}, {}", it.cpu, it.cores, it.kernel, it.system),
            format!("disk {disk} ({}); {versions}", it.disk_mount_options),
            format!(
                "sessile {}, commit {}, {} build; {}",
                it.sessile, it.commit, it.build, it.build_flags
            ),
        ];
        lines.extend(it.servers.iter().map(|(name, flags)| format!("{name}: {flags}")));
        lines
    }
}

impl Collection {
    /// All reports, and what is missing.
    pub fn to_markdown(&self) -> String {
        let mut parts: Vec<String> = self.runs.iter().map(Report::to_markdown).collect();
        let missing = self.left_out.iter().map(|left| {
            format!("- not here: {}: {}\n", left.experiment, left.reason.replace('<', "\\<"))
        });
        let missing: Vec<String> = missing.collect();
        parts.extend((!missing.is_empty()).then(|| missing.concat()));
        parts.join("\n")
    }
}
