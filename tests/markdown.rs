//! Finds code, links and marked blocks in Markdown.
//!
//! Not a parser: it knows fenced blocks, code spans on one line, and inline links, as in these
//! documents.

/// A piece of a document with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// From 1.
    pub line: usize,
    /// The text without backticks, brackets or fences.
    pub text: &'a str,
}

/// The code spans outside fenced blocks.
pub fn code_spans(document: &str) -> Vec<Piece<'_>> {
    let mut spans = Vec::new();
    for (line, text) in
        lines(document).filter(|(_, _, fenced)| !fenced).map(|(line, text, _)| (line, text))
    {
        // Every second part is between backticks; a part without a partner is no span.
        let parts: Vec<&str> = text.split('`').collect();
        let closed = parts.len().saturating_sub(1) / 2;
        spans.extend(parts.iter().skip(1).step_by(2).take(closed).map(|text| Piece { line, text }));
    }
    spans.retain(|span| !span.text.is_empty());
    spans
}

/// The lines of fenced blocks.
pub fn code_lines(document: &str) -> Vec<Piece<'_>> {
    let fenced = lines(document).filter(|(_, text, fenced)| *fenced && !is_fence(text));
    fenced.map(|(line, text, _)| Piece { line, text: text.trim() }).collect()
}

/// The targets of inline links.
pub fn links(document: &str) -> Vec<Piece<'_>> {
    let mut links = Vec::new();
    for (line, text, _) in lines(document).filter(|(_, _, fenced)| !fenced) {
        let after = text.split("](").skip(1);
        links.extend(
            after.filter_map(|rest| rest.split_once(')')).map(|(text, _)| Piece { line, text }),
        );
    }
    links
}

/// The text between `<!-- NAME -->` and `<!-- end NAME -->`, with its byte range in the document.
pub fn marked<'a>(document: &'a str, name: &str) -> Option<(std::ops::Range<usize>, &'a str)> {
    let open = format!("<!-- {name} -->\n");
    let start = document.find(&open)? + open.len();
    let length = document.get(start..)?.find(&format!("<!-- end {name} -->"))?;
    let range = start..start + length;
    Some((range.clone(), document.get(range)?))
}

/// Line number, text, and whether it is in a fenced block (fences included).
fn lines(document: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut inside = false;
    document.lines().enumerate().map(move |(index, text)| {
        let fence = is_fence(text);
        let fenced = inside || fence;
        inside ^= fence;
        (index + 1, text, fenced)
    })
}

fn is_fence(text: &str) -> bool {
    text.trim_start().starts_with("```")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "Run `make x` or `y`, not `open\n```sh\nmake z\n```\nsee [this](a/b.md) \
                            and [that](c.md)\n\
                            <!-- t -->\nold\n<!-- end t -->\n";

    #[test]
    fn spans_lines_links_and_marks_are_found() {
        assert_eq!(
            code_spans(DOCUMENT),
            [Piece { line: 1, text: "make x" }, Piece { line: 1, text: "y" }]
        );
        assert_eq!(code_lines(DOCUMENT), [Piece { line: 3, text: "make z" }]);
        assert_eq!(
            links(DOCUMENT),
            [Piece { line: 5, text: "a/b.md" }, Piece { line: 5, text: "c.md" }]
        );
        assert_eq!(marked(DOCUMENT, "t").map(|(_, text)| text), Some("old\n"));
        assert_eq!(marked(DOCUMENT, "u"), None);
    }
}
