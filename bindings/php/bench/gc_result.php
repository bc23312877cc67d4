<?php
// The garbage collection experiment in schema 1 of `sessile bench --json`, for
// `sessile bench report`. Finer data of PHP is in `php` of each row; it marks the row as one of a
// handler, not of the store with the same name.

/** Upper bounds of histograms in microseconds, equal to those of `sessile bench`. */
const BOUNDS_US = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
    100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000];

const OPS = [GC_OFF => 'start-gc-0', GC_ON => 'start-gc-0.1',
    SWEPT_BESIDE => 'start-while-sweeping', NOTHING => 'nothing',
    BEFORE_DELETION => 'start-before-deleting', BESIDE_DELETION => 'start-while-deleting',
    DELETED_BY_REQUESTS => 'start-gc-0.1-expired'];

// The thresholds at which `sessile bench` warns.
const NOISY = 0.25;
const STOLEN = 0.002;

/** The parts of a result other than rows. Constructed before measuring. */
final class Surroundings
{
    private readonly array $environment;
    private readonly array $ticks;

    /**
     * @param array<string, mixed> $options as used
     * @param list<array> $left_out
     * @param array<string, string> $programs versions by name
     */
    public function __construct(
        private readonly array $options,
        private readonly string $command,
        private readonly array $left_out,
        array $programs,
    ) {
        $this->environment = environment((string) $options['program'], $programs);
        $this->ticks = processor_ticks();
    }

    /** @param list<array> $rows */
    public function with(array $rows): array
    {
        $paced = [OPS[BEFORE_DELETION], OPS[BESIDE_DELETION]];
        $at_a_rate = array_filter($rows, fn(array $row) => in_array($row['op'], $paced, true));
        $stolen = $this->stolen();
        $rounds = max([0, ...array_column($rows, 'rounds')]);
        return [
            'schema' => 1,
            'environment' => $this->environment,
            'command' => $this->command,
            'seed' => (int) $this->options['seed'],
            'settings' => [
                'seconds' => 0.0, // a row ends with its last start
                'warm_up_seconds' => 0.0,
                'ttl_seconds' => (int) $this->options['lifetime'],
            ] + ($at_a_rate ? ['rate' => PACE] : []) + [
                'processors_awake' => false,
                'stolen' => $stolen,
                'churn' => 0,
                'confidence' => $rounds > 0 ? 1 - 0.5 ** ($rounds - 1) : 0.0,
            ],
            'results' => $rows,
            'left_out' => $this->left_out,
            'warnings' => $this->warnings($rows, $stolen),
        ];
    }

    /** The part of processor time that the hypervisor took since construction. */
    private function stolen(): float
    {
        [$stolen, $all] = processor_ticks();
        return ($stolen - $this->ticks[0]) / max(1, $all - $this->ticks[1]);
    }

    private function warnings(array $rows, float $stolen): array
    {
        $warnings = [
            sprintf("handlers of PHP in PHP's own process: a row ends after %s starts or %s s, and"
                . " which starts collect garbage is drawn by PHP and not from the seed",
                number_format((int) $this->options['starts']), $this->options['seconds']),
            'PHP does not say which starts have collected garbage: where their latencies have two'
                . ' modes, those of the slower one are taken for them',
        ];
        $noisy = [];
        foreach ($rows as $row) {
            $rate = $row['ops_per_second'];
            $spread = $rate['median'] > 0 ? ($rate['high'] - $rate['low']) / $rate['median'] : 0;
            if ($row['rounds'] > 1 && $spread > NOISY) {
                $noisy[] = sprintf('%s %s %.0f %%', title($row), $row['op'], $spread * 100);
            }
        }
        if ($noisy) {
            $warnings[] = sprintf('rounds differ by more than %.0f %%: %s', NOISY * 100,
                implode(', ', $noisy));
        }
        if ($stolen > STOLEN) {
            $warnings[] = sprintf("the hypervisor gave %.1f %% of the processors' time to others:"
                . " p99 and p99.9 are partly the machine's", $stolen * 100);
        }
        return $warnings;
    }
}

/** The description of the machine by the command: no host name, user or path. */
function environment(string $program, array $programs): array
{
    exec(escapeshellarg($program) . ' bench environment', $lines, $code);
    $environment = $code === 0 ? json_decode(implode("\n", $lines), true) : null;
    if (!is_array($environment)) {
        fwrite(STDERR, "what --json says of the machine comes from `sessile bench environment`,"
            . " and that fails; `make build` leaves the command\n");
        exit(1);
    }
    $environment['versions'] = $programs + $environment['versions'];
    ksort($environment['versions']);
    return $environment;
}

/** @return array{int, int} ticks since the machine started: stolen, and all */
function processor_ticks(): array
{
    $line = strtok((string) file_get_contents('/proc/stat'), "\n");
    // user nice system idle iowait irq softirq steal; guest ticks are already in the first two.
    $ticks = array_map(intval(...), array_slice(preg_split('/ +/', (string) $line), 1, 8));
    return [$ticks[7] ?? 0, array_sum($ticks)];
}

/**
 * The command line, without paths.
 *
 * @param array<string, string> $given
 * @param list<string> $handlers
 */
function command_line(array $given, array $handlers): string
{
    $words = ['sh scripts/php.sh gc-bench'];
    $paths = array_flip(['sessile', 'floor', 'shm', 'disk', 'program']);
    foreach (array_diff_key($given, $paths) as $name => $value) {
        $words[] = "--$name " . ($name === 'json' ? basename($value) : $value);
    }
    foreach ($handlers as $part) {
        $words[] = preg_match('/^[\w-]+$/', $part) ? $part : "'$part'";
    }
    return implode(' ', $words);
}

function rows(array $contenders, int $sessions, Places $at): array
{
    $rows = [];
    foreach ($contenders as $contender) {
        foreach ($contender->rows as $condition => $row) {
            $handler = $contender->handler;
            $rows[] = ['experiment' => 'gc', 'store' => $handler->store,
                'url' => url($handler, $at), 'variant' => $handler->variant,
                'op' => OPS[$condition], 'workers' => 1, 'sessions' => $sessions,
                'payload_bytes' => 1_400, 'payload_spread' => 'fixed',
                'durability' => $handler->durability, 'kind' => $handler->kind(),
                'rounds' => count($row->rates)]
                + figures($row) + ['failed' => $contender->failed]
                + extras($contender, $condition, $row);
        }
    }
    return $rows;
}

function title(array $row): string
{
    return $row['variant'] === 'default' ? $row['store'] : "$row[store]#$row[variant]";
}

/** The store URL, without paths. Each phase has its own directories. */
function url(Handler $handler, Places $at): string
{
    $url = (string) ($handler->settings['session.save_path'] ?? '');
    foreach (['<shm>' => $at->shm, '<disk>' => $at->disk] as $shown => $place) {
        $url = preg_replace('#' . preg_quote($place, '#') . '(/(starts|deletion|requests)\b)?#',
            $shown, $url);
    }
    return $url;
}

function figures(Measured $row): array
{
    return [
        'ops_per_second' => spread($row->rates),
        'latency_us' => latency_us($row->ns),
        'operations' => count($row->ns),
        'errors' => $row->errors,
        'first_error' => null,
        'misses' => $row->misses,
        'lost' => 0, // starts change nothing
        // CPU time of the server and storage size are not measured.
        'cpu_us_per_op' => ['client' => $row->cpu_us / max(1, count($row->ns)), 'server' => 0.0],
        'bytes_per_session' => 0,
    ];
}

/** The optional fields of a row, and PHP's. */
function extras(Contender $contender, string $condition, Measured $row): array
{
    $extras = ['histogram' => ['bounds_us' => BOUNDS_US, 'counts' => counts($row->ns)]];
    if ($row->removal !== null) {
        $seconds = $row->removal['seconds'];
        $extras['removal'] = ['removed' => $row->removal['removed'], 'seconds' => $seconds,
            'cpu_seconds' => $row->removal['cpu_seconds'] ?? null,
            // The removal is one call, except by a server, where its cost is unknown.
            'longest_call_us' => $contender->remover === Remover::Server ? null : $seconds * 1e6];
    }
    if (in_array($condition, [GC_ON, DELETED_BY_REQUESTS], true) && $row->ns) {
        $extras['modes'] = modes($row);
    }
    $calls = $row->histogram()->calls();
    $extras['php'] = [
        'calls' => ['from_us' => array_map(Histogram::us_of(...), array_keys($calls)),
            'counts' => array_values($calls)],
        'groups' => array_map(fn(array $mode) => ['from_us' => Histogram::us_of($mode['from']),
            'fullest_from_us' => Histogram::us_of($mode['fullest']), 'calls' => $mode['calls']],
            $row->histogram()->modes()),
    ];
    return $extras;
}

function spread(array $values): array
{
    sort($values);
    $values = $values ?: [0.0];
    $median = ($values[intdiv(count($values), 2)] + $values[intdiv(count($values) - 1, 2)]) / 2;
    return ['median' => $median, 'low' => $values[0], 'high' => end($values)];
}

/**
 * Calls between the bounds: below the first, between each two, above the last.
 *
 * @param list<int> $ns
 * @return list<int>
 */
function counts(array $ns): array
{
    $counts = array_fill(0, count(BOUNDS_US) + 1, 0);
    foreach ($ns as $each) {
        $bucket = 0;
        while ($bucket < count(BOUNDS_US) && $each >= BOUNDS_US[$bucket] * 1_000) {
            $bucket++;
        }
        $counts[$bucket]++;
    }
    return $counts;
}

/** The fastest mode, and all slower calls: PHP does not report which starts collected. */
function modes(Measured $row): array
{
    $groups = $row->histogram()->modes();
    $ns = $row->ns;
    sort($ns);
    $plain = $groups[0]['calls'];
    [$fast, $slow] = [latency_us(array_slice($ns, 0, $plain)),
        latency_us(array_slice($ns, $plain))];
    return ['plain_p50' => $fast['p50'], 'sweeping_p50' => $slow['p50'],
        'sweeping' => count($ns) - $plain,
        'sweeping_p90' => $slow['p90'], 'modes' => min(2, count($groups))];
}
