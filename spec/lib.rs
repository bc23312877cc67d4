//! The cases of `requests.toml`, for a driver of any language.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "for this workspace only: what a name says needs no comment")]

use std::collections::HashMap;
use std::time::Duration;

use serde::Deserialize;
use sessile_core::Clock;

/// The calls of one request, with texts as payloads. An error is the code of its kind.
pub trait RequestDriver {
    /// Makes an id whose cookie is in the response.
    fn make_id(&mut self, id: &str);

    /// Opens a session; `None` if strict mode refuses the id.
    fn start(&mut self, id: &str, unlocked: bool, strict: bool) -> Result<Option<Started>, String>;

    /// Saves, and names the result.
    fn save(&mut self, id: &str, save: SpecSave<'_>) -> Result<String, String>;

    /// Gives the session a new id. `keeps`: the old id is not deleted.
    fn regenerate(&mut self, old: &str, new: &str, keeps: bool) -> Result<(), String>;

    /// Logs out.
    fn destroy(&mut self, id: &str) -> Result<(), String>;

    /// Closes, and names the result.
    fn close(&mut self) -> String;
}

pub struct Started {
    pub text: String,
    /// The code of a warning.
    pub warns: Option<String>,
}

pub struct SpecSave<'a> {
    pub text: &'a str,
    /// Whether it differs from what was opened.
    pub changed: bool,
    /// Whether a cookie can be withdrawn.
    pub headers_open: bool,
}

/// The settings of a case; times in seconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpecRules {
    pub idle: u64,
    pub first_lifetime: u64,
    pub lifetime: u64,
    pub grace: u64,
    pub read_on_lock_timeout: bool,
    pub lazy_start: bool,
    pub touch_unlocked: bool,
    pub best_effort: bool,
    pub concurrency: SpecConcurrency,
    pub merge_conflict: SpecConflict,
}

/// `exclusive` or `merge`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SpecConcurrency {
    #[default]
    Exclusive,
    Merge,
}

/// `last` or `fail`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum SpecConflict {
    #[default]
    Last,
    Fail,
}

impl Default for SpecRules {
    fn default() -> SpecRules {
        SpecRules {
            idle: 1_440,
            first_lifetime: 0,
            lifetime: 0,
            grace: 30,
            read_on_lock_timeout: false,
            lazy_start: true,
            touch_unlocked: false,
            best_effort: false,
            concurrency: SpecConcurrency::Exclusive,
            merge_conflict: SpecConflict::Last,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    case: Vec<SpecCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpecCase {
    pub name: String,
    /// The settings of the application.
    #[serde(default)]
    pub rules: SpecRules,
    steps: Vec<Step>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Step {
    by: String,
    start: Option<String>,
    sees: Option<String>,
    known: Option<bool>,
    fails: Option<String>,
    warns: Option<String>,
    unlocked: bool,
    strict: bool,
    put: Option<String>,
    save: Option<String>,
    headers: Option<String>,
    regenerate: Option<String>,
    deletes: bool,
    destroy: Option<String>,
    close: Option<String>,
    made: Option<String>,
    advance: Option<u64>,
}

/// All cases of `spec/requests.toml`.
///
/// # Errors
///
/// Where the file is malformed.
pub fn request_cases() -> Result<Vec<SpecCase>, String> {
    let spec: Result<Spec, _> = toml::from_str(include_str!("requests.toml"));
    spec.map(|spec| spec.case).map_err(|why| format!("spec/requests.toml: {why}"))
}

struct SpecRequest<D> {
    driver: D,
    id: String,
    opened: String,
    text: String,
}

impl SpecCase {
    /// Whether time passes in it.
    pub fn advances(&self) -> bool {
        self.steps.iter().any(|step| step.advance.is_some())
    }

    /// Runs the case. `request` makes a request of the application; `id` makes ids unique.
    ///
    /// # Errors
    ///
    /// The step that did not do what the case says.
    pub fn run<D: RequestDriver>(
        &self,
        clock: &Clock,
        id: impl Fn(&str) -> String,
        mut request: impl FnMut() -> D,
    ) -> Result<(), String> {
        let mut requests: HashMap<&str, SpecRequest<D>> = HashMap::new();
        for step in &self.steps {
            if let Some(seconds) = step.advance {
                clock.advance(Duration::from_secs(seconds));
                continue;
            }
            let by = requests.entry(&step.by).or_insert_with(|| SpecRequest {
                driver: request(),
                id: String::new(),
                opened: String::new(),
                text: String::new(),
            });
            by.run(step, &id).map_err(|why| format!("{}: {step:?}: {why}", self.name))?;
        }
        Ok(())
    }
}

impl<D: RequestDriver> SpecRequest<D> {
    fn run(&mut self, step: &Step, id: impl Fn(&str) -> String) -> Result<(), String> {
        if let Some(name) = &step.made {
            self.driver.make_id(&id(name));
        } else if let Some(name) = &step.start {
            self.id = id(name);
            let started = self.driver.start(&self.id, step.unlocked, step.strict);
            let known = !matches!(started, Ok(None));
            let (text, warns, fails) = match started {
                Ok(Some(Started { text, warns })) => (Some(text), warns, None),
                Ok(None) => (None, None, None),
                Err(code) => (None, None, Some(code)),
            };
            same("known", known, step.known.unwrap_or(true))?;
            same("fails", &fails, &step.fails)?;
            same("sees", &text, &step.sees)?;
            same("warns", &warns, &step.warns)?;
            self.opened = text.unwrap_or_default();
            self.text.clone_from(&self.opened);
        } else if let Some(text) = &step.put {
            self.text.clone_from(text);
        } else if let Some(wanted) = &step.save {
            let save = SpecSave {
                text: &self.text,
                changed: self.text != self.opened,
                headers_open: step.headers.as_deref() != Some("sent"),
            };
            let saved = self.driver.save(&self.id, save).unwrap_or_else(|code| code);
            same("save", &saved, wanted)?;
        } else if let Some(name) = &step.regenerate {
            let new = id(name);
            let fails = self.driver.regenerate(&self.id, &new, !step.deletes).err();
            same("fails", &fails, &step.fails)?;
            self.id = new;
        } else if let Some(name) = &step.destroy {
            same("fails", &self.driver.destroy(&id(name)).err(), &step.fails)?;
        } else if let Some(wanted) = &step.close {
            same("close", &self.driver.close(), wanted)?;
        } else {
            return Err("the step says nothing to do".into());
        }
        Ok(())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: got {got:?}, wanted {wanted:?}")) }
}
