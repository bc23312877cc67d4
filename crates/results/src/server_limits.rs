//! What servers take with their defaults: the largest payloads, with how the benchmark raises them,
//! and all memory of those that evict.

/// A server's limit with its defaults, and the setting that raises it.
#[derive(Clone, Copy, Debug)]
pub struct DefaultLimit {
    /// As capabilities name it.
    pub server: &'static str,
    /// The largest payload in bytes.
    pub bytes: u64,
    pub setting: &'static str,
    /// The default of another server for the same store, for messages.
    pub another: Option<&'static str>,
}

/// One item, less room for the key and the store's header.
pub const MEMCACHED: DefaultLimit =
    DefaultLimit { server: "memcached", bytes: (1 << 20) - 1_024, setting: "-I", another: None };

/// Default limits below what the server can do.
pub const DEFAULT_LIMITS: [DefaultLimit; 2] = [
    MEMCACHED,
    // One packet, less room for the rest of the statement.
    DefaultLimit {
        server: "mariadbd",
        bytes: (16 << 20) - 1_024,
        setting: "max_allowed_packet",
        another: Some("MySQL: 64 MiB"),
    },
];

pub fn stock(server: Option<&str>) -> Option<DefaultLimit> {
    DEFAULT_LIMITS.into_iter().find(|stock| Some(stock.server) == server)
}

pub fn default_limit_bytes(server: Option<&str>) -> u64 {
    stock(server).map_or(u64::MAX, |stock| stock.bytes)
}

/// The memory that a server which evicts has by default, by the setting that capabilities name.
pub fn default_memory_mib(setting: &str) -> Option<u64> {
    match setting {
        "-m" => Some(64),
        "apc.shm_size" => Some(32),
        _ => None,
    }
}

/// The variant of the store `memcached` whose server was started with a raised limit, and how.
pub const RAISED_MEMCACHED: (&str, &str) = ("8m", "-I 8m");

/// The arguments that raised the limit of this variant's server.
pub fn raised_setting(store: &str, variant: &str) -> Option<&'static str> {
    let (raised, words) = RAISED_MEMCACHED;
    (store == "memcached" && variant == raised).then_some(words)
}
