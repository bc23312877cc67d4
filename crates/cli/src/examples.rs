//! Three examples for each verb, those of `bench` too, for its `--help` and its manual page.

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
            "copy php+redis://localhost sessile:/var/lib/shop/engine --dry-run",
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
            "sessions mysql://shop@db/shop --owner 17 --json",
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

/// As [`of`], for a verb of `bench`.
pub fn of_bench(verb: &str) -> &'static [&'static str] {
    match verb {
        "ops" => &[
            "bench ops --quick",
            "bench ops --stores sessile,redis --export-json ops.json",
            "bench ops --as-published --stores redis,files",
        ],
        "cycle" => &[
            "bench cycle --quick",
            "bench cycle --stores sessile,redis --workers 8 --rate 500",
            "bench cycle --stores files --baseline ./sessile-before",
        ],
        "contention" => &[
            "bench contention --quick",
            "bench contention --stores files,redis --workers 4",
            "bench contention --rate 100 --export-markdown contention.md",
        ],
        "gc" => &[
            "bench gc --quick",
            "bench gc --stores files,sqlite --sessions 100000",
            "bench gc --rate 1000 --duration 30s --export-json gc.json",
        ],
        "scale" => &[
            "bench scale --quick",
            "bench scale --stores sessile --sessions 1000000 --fill-max 10min",
            "bench scale --profile profile.json --report scale.html",
        ],
        "lifecycle" => &[
            "bench lifecycle --quick",
            "bench lifecycle --stores sessile#lock,phpredis#lock",
            "bench lifecycle --workers 8 --drupal /var/www/drupal",
        ],
        "perl" => {
            &["bench perl", "bench perl --quick", "bench perl --quick --export-json perl.json"]
        }
        "languages" => &[
            "bench languages --quick",
            "bench languages --stores node,perl",
            "bench languages --export-json languages.json",
        ],
        "oversize" => &[
            "bench oversize",
            "bench oversize --stores memcached,mysql",
            "bench oversize --quick --export-markdown oversize.md",
        ],
        "faults" => &[
            "bench faults --quick",
            "bench faults --stores redis,sessile --rounds 20",
            "bench faults --durability commit --export-json faults.json",
        ],
        _ => of_bench_tool(verb),
    }
}

fn of_bench_tool(verb: &str) -> &'static [&'static str] {
    match verb {
        "rebuild" => &[
            "bench rebuild --quick",
            "bench rebuild --payload 4000000",
            "bench rebuild --workers 8 --report rebuild.html",
        ],
        "all" => &[
            "bench all --quick --export-json all.json",
            "bench all --only cycle,gc --stores sessile,redis",
            "bench all --skip scale --report all.html",
        ],
        "setup" => {
            &["bench setup", "bench setup --json", "bench setup --json | jq -r '.packages[]'"]
        }
        "compare" => &[
            "bench compare old.json new.json",
            "bench compare all-before.json all-after.json",
            "bench compare old.json new.json > ratios.txt",
        ],
        "report" => &[
            "bench report all.json --output all.html",
            "bench report cycle.json gc.json --output page.html",
            "bench report all.json --output - > page.html",
        ],
        "environment" => &[
            "bench environment",
            "bench environment > machine.json",
            "bench environment | jq .build",
        ],
        _ => &[],
    }
}
