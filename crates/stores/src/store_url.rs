//! Store URLs: `scheme:/path?option=value#variant` or `scheme://user:password@host:port/db?...`.
//! `/path` is short for `sessile:/path`.
//!
//! Invariant: nothing printed here contains a password. Only the form is checked; each store
//! interprets the parts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use sessile_core::{Error, ErrorKind, Result};
use url::Url;

/// A parsed store URL.
#[derive(Clone)]
pub struct StoreUrl {
    url: Url,
    options: BTreeMap<String, String>,
    further_hosts: Vec<StoreUrl>,
}

/// Schemes whose URLs may name several servers: `scheme://host:port,host:port/`. Those of stores
/// that take one are here, too, so that they can say so.
const SCHEMES_OF_HOSTS: &[&str] = &[
    "mariadb",
    "memcached",
    "mysql",
    "postgres",
    "postgresql",
    "redis",
    "redis+cluster",
    "redis+sentinel",
    "rediss",
    "rediss+cluster",
    "rediss+sentinel",
];

/// The options that choose a store, or the login that sees it.
const IDENTIFYING_OPTIONS: &[&str] =
    &["bins", "database", "db", "prefix", "schema", "table", "user"];
/// Those whose values are URLs, which may have passwords.
const INNER_OPTIONS: &[&str] = &["bins_in", "from", "home", "large", "to"];

/// The store of a URL that is only an absolute path.
const SCHEME_OF_PATHS: &str = "sessile:";

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// `InvalidUrl`, which does not repeat the URL (it may carry a password).
    pub fn parse(text: &str) -> Result<StoreUrl> {
        if let Some(error) = form_of_php(text) {
            return Err(error);
        }
        let scheme = if text.starts_with('/') { SCHEME_OF_PATHS } else { "" };
        let text = format!("{scheme}{text}");
        let (text, further) = split_hosts(&text);
        let url = Url::parse(&text).map_err(|error| {
            invalid(format!("the store URL is malformed: {error}"))
                .advice("write /absolute/path, scheme:/absolute/path or scheme://host:port")
        })?;
        let mut options = BTreeMap::new();
        let parts = url.query().unwrap_or_default().split('&').filter(|part| !part.is_empty());
        for (part, (name, value)) in parts.zip(url.query_pairs()) {
            // A plus sign in a URL is one, and no space.
            let raw = part.split_once('=').map_or("", |(_, value)| value);
            let value = match INNER_OPTIONS.contains(&&*name) {
                true => percent_decode_str(raw).decode_utf8_lossy(),
                false => value,
            };
            if options.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(invalid(format!("option {} is given twice", shown(&name))));
            }
        }
        let further_hosts =
            further.iter().map(|host| further_host(url.scheme(), host)).collect::<Result<_>>()?;
        Ok(StoreUrl { url, options, further_hosts })
    }

    /// What tells this store from others on the same servers: all but passwords, labels and options
    /// that change only how it is reached. Two spellings of one store may differ.
    pub fn identity(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        // A URL that can have no password has none.
        let _ = url.set_password(None);
        let mut text = url.to_string();
        for further in &self.further_hosts {
            text.push_str(&format!(",{}", further.identity()));
        }
        for name in IDENTIFYING_OPTIONS {
            let Some(value) = self.text(name) else { continue };
            text.push_str(&format!("\n{name}={}:{value}", value.len()));
        }
        for (name, inner) in self.inner_urls() {
            // A malformed one may have a password anywhere; opening it fails.
            let inner = StoreUrl::parse(inner);
            let identity = inner.map_or("malformed".to_owned(), |inner| inner.identity());
            text.push_str(&format!("\n{name}={}:{identity}", identity.len()));
        }
        text
    }

    /// The URLs of the stores of which this one is made, and the options that have them.
    pub fn inner_urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        INNER_OPTIONS.iter().filter_map(|name| Some((*name, self.text(name)?)))
    }

    /// A text for display that is meant to be a URL: without secrets, otherwise as it was written.
    pub fn redact(text: &str) -> String {
        match StoreUrl::parse(text) {
            Ok(url) => {
                let shown = url.redacted();
                let path = shown.strip_prefix(SCHEME_OF_PATHS).filter(|_| text.starts_with('/'));
                path.unwrap_or(&shown).to_owned()
            }
            // A broken URL may have a password anywhere.
            Err(_) if text.contains(['@', '?', '#']) || text.contains("://") => {
                "a malformed store URL".to_owned()
            }
            Err(_) => text.to_owned(),
        }
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// The part after `#`: a label for results, without meaning for the store.
    pub fn variant(&self) -> Option<&str> {
        self.url.fragment()
    }

    /// All parts, for stores that are reached over a socket.
    pub fn parts(&self) -> &Url {
        &self.url
    }

    /// The hosts after the first, each as a URL with only host and port.
    pub fn further_hosts(&self) -> &[StoreUrl] {
        &self.further_hosts
    }

    /// The absolute path of a store in the file system.
    ///
    /// # Errors
    ///
    /// `InvalidUrl` when it is relative, names a host, or contains a NUL byte.
    pub fn path(&self) -> Result<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        let scheme = self.scheme();
        if self.url.host_str().is_some_and(|host| !host.is_empty()) {
            return Err(invalid(format!("{scheme}://NAME/... would name a host"))
                .advice(format!("write one slash: {scheme}:/absolute/path")));
        }
        let bytes: Vec<u8> = percent_decode_str(self.url.path()).collect();
        if bytes.first() != Some(&b'/') || bytes.contains(&0) {
            return Err(invalid("the path must be absolute")
                .advice(format!("write {scheme}:/absolute/path")));
        }
        Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    }

    /// The text of an option, if given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Adds an option, unless it is given.
    pub(crate) fn set_default(&mut self, name: &str, value: &str) {
        self.options.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.options.insert(name.to_owned(), value.to_owned());
    }

    /// Takes an option away, if it is given.
    pub(crate) fn without(&mut self, name: &str) {
        self.options.remove(name);
    }

    /// An option that is a whole number within a range.
    ///
    /// # Errors
    ///
    /// `InvalidUrl` when it is not.
    pub fn number(&self, name: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            invalid(format!(
                "option {name} must be a whole number from {} to {}",
                range.start(),
                range.end()
            ))
        })
    }

    /// A switch: `1`/`true`/`yes`/`on` or `0`/`false`/`no`/`off`; off by default.
    ///
    /// # Errors
    ///
    /// `InvalidUrl` for any other word.
    pub fn switch(&self, name: &str) -> Result<bool> {
        match self.text(name) {
            None | Some("0" | "false" | "no" | "off") => Ok(false),
            Some("1" | "true" | "yes" | "on") => Ok(true),
            Some(_) => Err(invalid(format!("option {name} must be 1 or 0"))),
        }
    }

    /// An option with a fixed set of words: `parse` knows them, `words` lists them for the message.
    ///
    /// # Errors
    ///
    /// `InvalidUrl` for any other word.
    pub fn word<T>(
        &self,
        name: &str,
        default: T,
        words: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let Some(text) = self.text(name) else { return Ok(default) };
        parse(text).ok_or_else(|| invalid(format!("option {name} must be one of: {words}")))
    }

    /// Refuses an option that is none of the known ones of `store`.
    ///
    /// # Errors
    ///
    /// `InvalidUrl`, which lists them.
    pub(crate) fn check_options(&self, store: &str, known: &[&str]) -> Result<()> {
        match self.options.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(invalid(format!("unknown option {}", shown(name)))
                .advice(format!("{store} takes: {}", known.join(", ")))),
        }
    }

    /// The URL without user, password, query and fragment: safe to print.
    ///
    /// A login stands between `//` and `@`. With a missing slash, or an unescaped `/`, `?` or `#`
    /// in a password, it is parsed as a path or a port. So nothing before a stray `@` is shown.
    pub fn redacted(&self) -> String {
        let (scheme, path) = (self.scheme(), self.url.path());
        let mut host = match (self.url.host_str(), self.url.port()) {
            (Some(host), Some(port)) if !host.is_empty() => format!("//{host}:{port}"),
            (Some(host), None) if !host.is_empty() => format!("//{host}"),
            _ => String::new(),
        };
        for further in &self.further_hosts {
            host.push(',');
            host.push_str(further.redacted().trim_start_matches(scheme).trim_start_matches("://"));
        }
        let login_missing = self.url.username().is_empty() && self.url.password().is_none();
        if !host.is_empty() && login_missing && self.url[url::Position::BeforePath..].contains('@')
        {
            return format!("{scheme}://...");
        }
        match path.rsplit_once('@') {
            // In a file's path only `:` marks a login: `/srv/shop@2/sessions` is a path.
            Some((before, after))
                if !host.is_empty() || !path.starts_with('/') || before.contains(':') =>
            {
                format!("{scheme}:...@{after}")
            }
            _ => format!("{scheme}:{host}{path}"),
        }
    }
}

// A derived Debug would print the password.
impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StoreUrl({})", self.redacted())
    }
}

/// The error for `N;/path` and `N;MODE;/path`, which PHP's own handler takes.
fn form_of_php(text: &str) -> Option<Error> {
    let (depth, rest) = text.split_once(';')?;
    let is_depth = !depth.is_empty() && depth.bytes().all(|byte| byte.is_ascii_digit());
    let path = rest.rsplit(';').next().filter(|path| is_depth && path.starts_with('/'))?;
    // With an option or an @ it may be more than a path.
    let path = if path.contains(['?', '#', '@']) { "/path" } else { path };
    let why = "N;/path and N;MODE;/path are forms of PHP's own session files";
    Some(invalid(why).advice(format!(
        "write {path} for an engine in this directory, or files:{path}?php=1&depth={depth} for \
         PHP's files"
    )))
}

/// Takes the hosts after the first out of a URL: no standard has several. A comma may be written as
/// `%2C`, where commas separate URLs.
fn split_hosts(text: &str) -> (Cow<'_, str>, Vec<&str>) {
    let several = |(scheme, _): &(&str, &str)| {
        SCHEMES_OF_HOSTS.iter().any(|known| known.eq_ignore_ascii_case(scheme))
    };
    let Some((_, rest)) = text.split_once("://").filter(several) else {
        return (Cow::Borrowed(text), Vec::new());
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let hosts = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    // A comma before an @ belongs to the password.
    let mut parts =
        hosts.split(',').flat_map(|part| part.split("%2C")).flat_map(|part| part.split("%2c"));
    let first = parts.next().unwrap_or("");
    let further: Vec<&str> = parts.collect();
    if further.is_empty() {
        return (Cow::Borrowed(text), further);
    }
    let before = text.len() - rest.len() + authority.len() - hosts.len();
    let after = before + hosts.len();
    let (head, tail) = (text.get(..before).unwrap_or(""), text.get(after..).unwrap_or(""));
    (Cow::Owned(format!("{head}{first}{tail}")), further)
}

fn further_host(scheme: &str, host: &str) -> Result<StoreUrl> {
    let malformed = || {
        invalid("one of the hosts is malformed")
            .advice(format!("write {scheme}://host:port,host:port/, with no login but the first"))
    };
    let url = Url::parse(&format!("{scheme}://{host}")).map_err(|_| malformed())?;
    let plain =
        url.host_str().is_some_and(|host| !host.is_empty()) && matches!(url.path(), "" | "/");
    let plain = plain && !host.contains(['@', '?', '#']);
    if plain {
        Ok(StoreUrl { url, options: BTreeMap::new(), further_hosts: Vec::new() })
    } else {
        Err(malformed())
    }
}

pub(crate) fn invalid(why: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidUrl, why)
}

/// The name of an option for an error. An impossible name may be the tail of a password with a `?`
/// or `&` in it.
fn shown(name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if plain && (1..=32).contains(&name.len()) {
        format!("{name:?}")
    } else {
        "(no name of an option)".to_owned()
    }
}

/// A store URL with another option.
pub fn with_option(url: &str, name: &str, value: &str) -> String {
    let (base, variant) = url.split_once('#').map_or((url, ""), |(base, variant)| (base, variant));
    let joint = if base.contains('?') { '&' } else { '?' };
    let hash = if variant.is_empty() { "" } else { "#" };
    format!("{base}{joint}{name}={value}{hash}{variant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_goes_before_the_variant() {
        assert_eq!(
            with_option("files:/x#shm", "durability", "none"),
            "files:/x?durability=none#shm"
        );
        assert_eq!(with_option("files:/x?php=1", "a", "b"), "files:/x?php=1&a=b");
    }

    #[test]
    fn nothing_printed_contains_a_password() {
        let url = StoreUrl::parse("redis://shop:s3cret@db:6380/2?password=s3cret#x").unwrap();
        assert_eq!(url.redacted(), "redis://db:6380/2");
        assert_eq!(format!("{url:?}"), "StoreUrl(redis://db:6380/2)");
        let error = StoreUrl::parse("redis://u:s3cret@host:notaport/").unwrap_err();
        assert!(!format!("{error:#}").contains("s3cret"));
    }

    /// The commonest typing errors in a URL with a password made it part of the path, which every
    /// error and the label of the store repeat: `redis:/shop:s3cret@db`, or a password with a slash
    /// that was not encoded.
    #[test]
    fn a_password_that_is_not_where_it_belongs_is_not_printed_either() {
        for url in [
            "redis:shop:s3cret@db/0",
            "redis:/shop:s3cret@db/0",
            "redis:///shop:s3cret@db/0",
            "shop:s3cret@db",
            "redis://shop:1/s3cret@db/0",
            "redis://shop:1#s3cret@db/0",
            "redis://shop:1?s3cret@db/0",
            "redis://u:p@shop:1/s3cret@db/0",
            "redis+unix:/shop:s3cret@/run/redis.sock",
            "sqlite:/tmp/x.db?S3CRET=s3cret&s3cret-tail@db",
        ] {
            let error = crate::open(url, &crate::Context::default()).unwrap_err();
            let printed = format!("{error:#} {error:?} {:?}", StoreUrl::parse(url).unwrap());
            assert!(!printed.contains("s3cret") && !printed.contains("shop:1"), "{url}: {printed}");
        }
        let kept = ["files:/srv/shop@2/sessions", "sqlite:/srv/12:30/x.db", "redis://db:6380/2"];
        kept.iter().for_each(|url| assert_eq!(StoreUrl::parse(url).unwrap().redacted(), **url));
    }

    /// A plus sign in an option is read as a space; two such stores had one identity.
    #[test]
    fn the_identity_has_the_stores_of_which_a_store_is_made() {
        let identity = |text: &str| StoreUrl::parse(text).unwrap().identity();
        let one = identity("migrate:?from=redis+unix:/a&to=files:/f");
        assert_ne!(one, identity("migrate:?from=redis+unix:/b&to=files:/f"));
        assert_eq!(one, identity("migrate:?from=redis%2Bunix:/a&to=files:/f"));
        let secret = identity("migrate:?from=redis://:s3cret@a/&to=redis://:s3cret@b:x/");
        assert!(!secret.contains("s3cret"), "{secret}");
    }

    #[test]
    fn several_hosts_are_told_apart_printed_and_keep_the_password() {
        let hosts = |text: &str| {
            let url = StoreUrl::parse(text).unwrap();
            let further =
                url.further_hosts().iter().map(|host| host.parts().host_str().unwrap().to_owned());
            (url.redacted(), further.collect::<Vec<_>>())
        };
        let (shown, further) = hosts("memcached://u:s,3%2Fcret@a:1,b,[::1]:2?prefix=x,y");
        assert_eq!(
            (shown.as_str(), further),
            ("memcached://a:1,b,[::1]:2", vec!["b".to_owned(), "[::1]".to_owned()])
        );
        assert_eq!(hosts("memcached://a:1%2Cb:2/").0, "memcached://a:1,b:2/");
        for text in [
            "redis://u:s3cret@a:1,b:2",
            "memcached://u:s3cret@a,b@c",
            "memcached://u:s3cret@a,,b",
            "memcached://u:1,s3cret/x@a",
        ] {
            match StoreUrl::parse(text) {
                Ok(url) => {
                    assert!(!url.redacted().contains("s3cret"), "{text}: {}", url.redacted())
                }
                Err(error) => assert!(!format!("{error:#}").contains("s3cret"), "{text}"),
            }
        }
    }

    #[test]
    fn a_path_is_absolute_and_percent_decoded() {
        let path = |text: &str| StoreUrl::parse(text).and_then(|url| url.path());
        assert_eq!(path("files:/var/my%20dir").unwrap(), PathBuf::from("/var/my dir"));
        assert_eq!(path("files:///var/x").unwrap(), PathBuf::from("/var/x"));
        assert!(path("files:relative").is_err());
        assert!(path("files://host/x").is_err());
        assert!(path("files:/a%00b").is_err());
    }

    #[test]
    fn an_absolute_path_is_an_engine_there() {
        for text in ["/var/lib/sessile", "/var/lib/sessile?durability=none#label"] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!((url.scheme(), url.path().unwrap()), ("sessile", "/var/lib/sessile".into()));
            assert_eq!(url.redacted(), "sessile:/var/lib/sessile");
            assert_eq!(StoreUrl::redact(text), "/var/lib/sessile");
        }
        assert_eq!(StoreUrl::redact("sessile:/var/lib/sessile"), "sessile:/var/lib/sessile");
        assert_eq!(StoreUrl::redact("/shop:s3cret@db"), "...@db");
        assert!(StoreUrl::parse("//host/x").unwrap().path().is_err());
    }

    #[test]
    fn a_path_as_php_files_has_it_is_refused_and_told_what_to_write() {
        for (text, depth) in [("5;/var/sessions", 5), ("2;0600;/var/sessions", 2)] {
            let error = format!("{:#}", StoreUrl::parse(text).unwrap_err());
            assert!(error.contains(&format!("files:/var/sessions?php=1&depth={depth}")), "{error}");
            assert_eq!(StoreUrl::redact(text), text);
        }
        let error = StoreUrl::parse("5;/shop:s3cret@db").unwrap_err();
        assert!(!format!("{error:#}").contains("s3cret"));
        let url = StoreUrl::parse("files:/srv/5;/x").unwrap();
        assert_eq!(url.path().unwrap(), PathBuf::from("/srv/5;/x"));
    }

    #[test]
    fn malformed_and_repeated_options_are_refused() {
        let url = StoreUrl::parse("files:/x?depth=9&php=maybe").unwrap();
        assert!(url.number("depth", 0, 0..=5).is_err());
        assert!(url.switch("php").is_err());
        assert!(StoreUrl::parse("files:/x?php=1&php=0").is_err());
    }
}
