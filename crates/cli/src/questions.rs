//! Asks the questions of `sessile recommend` on a terminal.
//!
//! Only what no flag says is asked. An empty answer is the default; a malformed one is asked again.
//! The end of the input answers all other questions with their defaults.

use std::io::{self, BufRead, Write};

use crate::arguments::{SiteAnswers, percent, requests_per_second, yes_or_no};

pub fn ask(
    arguments: &mut SiteAnswers,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut asked = Questionnaire { input, output, ended: false };
    asked.number("How many web servers run the application?", "1", &mut arguments.web_servers)?;
    if arguments.web_servers.is_some_and(|count| count > 1) && !arguments.affinity {
        let mut affinity = None;
        asked.one(
            "Does a visitor always get to the same one (yes or no)?",
            "no",
            yes_or_no,
            &mut affinity,
        )?;
        arguments.affinity = affinity.unwrap_or(false);
    }
    asked.number("How many sessions live at the same time?", "10000", &mut arguments.sessions)?;
    let rate = &mut arguments.requests_per_second;
    asked.one(
        "How many requests a second are there at the busiest time?",
        "50",
        requests_per_second,
        rate,
    )?;
    let anonymous = &mut arguments.anonymous;
    asked.one(
        "For how many percent of the visitors is nothing to be remembered?",
        "0",
        percent,
        anonymous,
    )?;
    asked.one(
        "How many percent of the sessions are robots'?",
        "0",
        percent,
        &mut arguments.bots,
    )?;
    let restart = &mut arguments.restart_may_log_out;
    asked.one("May a restart log everybody out (yes or no)?", "no", yes_or_no, restart)
}

struct Questionnaire<'a> {
    input: &'a mut dyn BufRead,
    output: &'a mut dyn Write,
    /// The input has ended: a terminal would block again.
    ended: bool,
}

impl Questionnaire<'_> {
    fn number<T: TryFrom<u64>>(
        &mut self,
        question: &str,
        default: &str,
        into: &mut Option<T>,
    ) -> io::Result<()> {
        let whole = |text: &str| {
            let number = text
                .parse::<u64>()
                .ok()
                .filter(|number| *number > 0)
                .and_then(|it| T::try_from(it).ok());
            number.ok_or_else(|| "it must be a whole number, 1 or more".to_owned())
        };
        self.one(question, default, whole, into)
    }

    fn one<T>(
        &mut self,
        question: &str,
        default: &str,
        parse: impl Fn(&str) -> Result<T, String>,
        into: &mut Option<T>,
    ) -> io::Result<()> {
        if into.is_some() {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            if !self.ended {
                write!(self.output, "{question} [{default}] ")?;
                self.output.flush()?;
                self.ended = self.input.read_line(&mut line)? == 0;
            }
            let answer = if line.trim().is_empty() { default } else { line.trim() };
            match parse(answer) {
                Ok(value) => {
                    *into = Some(value);
                    return Ok(());
                }
                Err(_) if self.ended => return Ok(()),
                Err(why) => writeln!(self.output, "{why}")?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(given: SiteAnswers, answers: &str) -> (SiteAnswers, String) {
        let (mut arguments, mut shown) = (given, Vec::new());
        ask(&mut arguments, &mut answers.as_bytes(), &mut shown).unwrap();
        (arguments, String::from_utf8(shown).unwrap())
    }

    #[test]
    fn answers_become_flags_and_an_empty_one_is_the_default() {
        let (it, shown) = answered(SiteAnswers::default(), "3\nyes\n\n200\n90%\n5\nyes\n");
        assert_eq!((it.web_servers, it.affinity, it.sessions), (Some(3), true, Some(10_000)));
        assert_eq!(
            (it.requests_per_second, it.anonymous, it.bots),
            (Some(200.0), Some(90.0), Some(5.0))
        );
        assert_eq!((it.restart_may_log_out, shown.matches('?').count()), (Some(true), 7));
    }

    /// A terminal can be read again after Ctrl-D: each question waited for another one.
    #[test]
    fn the_end_of_the_input_answers_all_that_is_left() {
        struct Terminal(u32);
        impl io::Read for Terminal {
            fn read(&mut self, _into: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                assert_eq!(self.0, 1, "it was read again after its end");
                Ok(0)
            }
        }
        let (mut answers, mut shown) = (SiteAnswers::default(), Vec::new());
        ask(&mut answers, &mut io::BufReader::new(Terminal(0)), &mut shown).unwrap();
        assert_eq!((answers.web_servers, answers.restart_may_log_out), (Some(1), Some(false)));
        assert_eq!(String::from_utf8(shown).unwrap().matches('?').count(), 1);
    }

    #[test]
    fn a_malformed_answer_is_asked_for_again_and_a_flag_is_not_asked_for() {
        let given = SiteAnswers { sessions: Some(7), ..SiteAnswers::default() };
        let (it, shown) = answered(given, "none\n0\n1\n");
        assert_eq!(
            (it.web_servers, it.sessions, it.restart_may_log_out),
            (Some(1), Some(7), Some(false))
        );
        assert_eq!(shown.matches("How many web servers").count(), 3);
        assert!(!shown.contains("sessions live") && !shown.contains("same one"), "{shown}");
    }
}
