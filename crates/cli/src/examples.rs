//! Three examples for each verb, for its `--help` and its manual page.

/// The command lines, without `sessile` before them. `sessile` stands for the command itself; a
/// verb that is not known has none.
pub fn of(verb: &str) -> &'static [&'static str] {
    match verb {
        "sessile" => {
            &["stores", "stat sessile:/var/lib/sessile/php", "bench cycle --stores sessile,files"]
        }
        "stores" => &["stores", "stores redis", "stores --json | jq '.stores[].name'"],
        "bench" => &["bench", "bench cycle --quick", "bench all --quick --export-json result.json"],
        "recommend" => &[
            "recommend --table",
            "recommend --results result.json --sessions 1000000",
            "recommend --installed redis --web-servers 2 --json",
        ],
        "stat" => &[
            "stat sessile:/var/lib/sessile/php",
            "stat redis://localhost --json",
            "stat 'files:/var/lib/php/sessions?php=1'",
        ],
        "analyze" => &[
            "analyze files:/var/lib/shop/sessions --larger-than 1M",
            "analyze php+files:/var/lib/php/sessions --top 3",
            "analyze redis://localhost --batch 100 --pause 4x --stop-after 10min",
        ],
        "check" => &[
            "check sessile:/var/lib/sessile/php",
            "check files:/var/lib/shop/sessions --pause 4x --json",
            "check sqlite:/var/lib/shop/sessions.db",
        ],
        "gc" => &[
            "gc files:/var/lib/shop/sessions",
            "gc mysql://shop@localhost/shop --batch 100 --pause 10x",
            "gc sqlite:/var/lib/shop/sessions.db --stop-after 10min --json",
        ],
        "copy" => &[
            "copy files:/var/lib/shop/sessions sessile:/var/lib/shop/engine",
            "copy redis://localhost sessile:/var/lib/shop/engine --dry-run",
            "copy redis://localhost sessile:/var/lib/shop/engine --move --pause 4x",
        ],
        "sync" => &[
            "sync sessile:/var/lib/sessile/php",
            "sync files:/var/lib/shop/sessions",
            "sync sqlite:/var/lib/shop/sessions.db",
        ],
        "drop" => &[
            "drop sessile:/dev/shm/shop",
            "drop files:/var/lib/shop/sessions --yes",
            "drop sqlite:/var/lib/shop/sessions.db --yes --json",
        ],
        "sessions" => &[
            "sessions sessile:/dev/shm/shop --owner 17",
            "sessions mysql://shop:secret@db/shop --owner 17 --json",
            "sessions redis://localhost --owner 17 --revoke --yes",
        ],
        "completion" => &[
            "completion bash > /etc/bash_completion.d/sessile",
            "completion zsh > /usr/share/zsh/site-functions/_sessile",
            "completion fish > /etc/fish/completions/sessile.fish",
        ],
        _ => of_a_store_in_use(verb),
    }
}

fn of_a_store_in_use(verb: &str) -> &'static [&'static str] {
    match verb {
        "doctor" => &[
            "doctor sessile:/var/lib/sessile/php --keep 1s --user www-data",
            "doctor redis://localhost --workers 64 --json",
            "doctor 'files:/var/lib/php/sessions?php=1' --php-ini /etc/php/8.2/fpm/php.ini",
        ],
        "locks" => &[
            "locks sessile:/dev/shm/shop",
            "locks redis://localhost --json",
            "locks sqlite:/var/lib/shop/sessions.db --limit 5",
        ],
        "top" => &[
            "top sessile:/dev/shm/shop",
            "top redis://localhost",
            "top files:/var/lib/shop/sessions --once",
        ],
        "metrics" => &[
            "metrics sessile:/dev/shm/shop",
            "metrics redis://localhost --listen 127.0.0.1:9899",
            "metrics files:/var/lib/shop/sessions > /var/lib/node_exporter/sessions.prom",
        ],
        "serve" => &[
            "serve sessile:/dev/shm/shop",
            "serve redis://localhost --listen 127.0.0.1:8080",
            "serve files:/var/lib/shop/sessions --token-file /etc/sessile/token",
        ],
        _ => &[],
    }
}
