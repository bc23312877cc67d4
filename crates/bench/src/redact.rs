//! Keeps directories, hosts, users, passwords and session ids out of results.

use sessile_results::SHOWN_HOST;
use url::Url;

/// A word with so many letters and digits may be a session id.
const ID_LETTERS: usize = 20;

/// A URL reduced to its scheme and kind of place.
pub(crate) fn url(text: &str) -> String {
    let Ok(url) = Url::parse(text) else { return "<malformed>".to_owned() };
    let scheme = url.scheme();
    match (url.host_str().filter(|host| !host.is_empty()), url.path()) {
        (Some(_), _) => format!("{scheme}{SHOWN_HOST}"),
        (None, "") => format!("{scheme}:"),
        (None, _) => format!("{scheme}:<path>"),
    }
}

/// The command line: options stay, paths lose their directories.
pub(crate) fn command(arguments: &[String]) -> String {
    let mut shown = Vec::new();
    for (position, argument) in arguments.iter().enumerate() {
        if position == 0 {
            shown.push("sessile".to_owned());
            continue;
        }
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (format!("{flag}="), value),
            _ => (String::new(), argument.as_str()),
        };
        let value = value.split(',').map(word).collect::<Vec<String>>().join(",");
        shown.push(format!("{flag}{value}"));
    }
    shown.join(" ")
}

fn word(word: &str) -> String {
    match word.split_once(':') {
        Some((scheme, _)) if !scheme.is_empty() && !scheme.contains('/') => {
            let label =
                word.split_once('#').map_or(String::new(), |(_, label)| format!("#{label}"));
            format!("{}{label}", url(word))
        }
        _ => word.rsplit('/').next().unwrap_or_default().to_owned(),
    }
}

/// A message without the contender's directories and the user's URL.
pub(crate) fn message(text: &str, places: &[(String, &str)]) -> String {
    places
        .iter()
        .filter(|(place, _)| place.len() > 1)
        .fold(text.to_owned(), |text, (place, name)| text.replace(place.as_str(), name))
}

/// A message without session ids, which PHP and Perl print in warnings.
pub(crate) fn ids(text: &str) -> String {
    let mut shown = String::new();
    let mut word = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_alphanumeric() {
            word.push(letter);
            continue;
        }
        shown.push_str(if word.len() >= ID_LETTERS { "<id>" } else { &word });
        shown.push(letter);
        word.clear();
    }
    shown.trim_end().to_owned()
}

/// A message without absolute paths, for programs whose directories are unknown.
pub(crate) fn paths(text: &str) -> String {
    let hide = |word: &str| {
        let start = word.find(|c: char| !"'\"(=".contains(c)).unwrap_or(0);
        let is_path = word.get(start..).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1);
        if is_path { "<path>".to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(hide).collect::<Vec<String>>().join(" ")
}

/// Why a private server did not start, without the paths and ids of its log.
pub(crate) fn start_error(error: &dyn std::fmt::Display) -> String {
    ids(&paths(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_loses_the_session_id() {
        let warning = "PHP Warning: open(<shm>/sess_0ljs9d0v5s8q1m7b2n4c6x8z3a, O_RDWR) failed: No \
                       space left (28)";
        assert_eq!(
            ids(warning),
            "PHP Warning: open(<shm>/sess_<id>, O_RDWR) failed: No space left (28)"
        );
        assert_eq!(
            ids("Invalid session ID: 0123456789abcdef0123456789abcdef"),
            "Invalid session ID: <id>"
        );
        assert_eq!(ids(""), "");
    }

    #[test]
    fn the_log_of_a_server_loses_its_places() {
        let text = "/usr/bin/redis-server did not come up; its log ends: can't open \
                    '/home/ada/x.conf' | 3 of 1 / s";
        assert_eq!(
            paths(text),
            "<path> did not come up; its log ends: can't open <path> | 3 of 1 / s"
        );
    }

    #[test]
    fn a_command_keeps_its_options_and_loses_its_places() {
        let arguments = [
            "/home/ada/bin/sessile",
            "bench",
            "cycle",
            "--stores",
            "files:/home/ada/x#mine,redis://ada:pw@shop.example:1/2",
            "--export-json",
            "/home/ada/out.json",
            "--export-markdown=/tmp/y.md",
            "--seed",
            "7",
        ];
        let arguments: Vec<String> =
            arguments.iter().map(|argument| (*argument).to_owned()).collect();
        assert_eq!(
            command(&arguments),
            "sessile bench cycle --stores files:<path>#mine,redis://<host> --export-json out.json \
             --export-markdown=y.md --seed 7"
        );
    }

    #[test]
    fn a_message_loses_its_places() {
        let places = [("/var/tmp/sessile-x1".to_owned(), "<disk>")];
        assert_eq!(
            message("cannot open /var/tmp/sessile-x1/files", &places),
            "cannot open <disk>/files"
        );
    }
}
