<?php
// A handler in the garbage collection experiment, with its measurements.

final class Measured
{
    public array $ns = [];
    /** @var list<float> calls per second of call time, by round */
    public array $rates = [];
    public int $misses = 0;
    public int $errors = 0;
    public float $cpu_us = 0;
    /** @var array{removed: int, seconds: float, cpu_seconds?: float}|null a concurrent removal */
    public ?array $removal = null;
    private ?Histogram $histogram = null;

    public function add(array $answer): void
    {
        array_push($this->ns, ...$answer['ns']);
        if ($answer['ns']) {
            $this->rates[] = count($answer['ns']) / max(1, array_sum($answer['ns'])) * 1e9;
        }
        $this->misses += $answer['misses'];
        $this->errors += $answer['errors'];
        $this->cpu_us += $answer['cpu_us'];
    }

    public function histogram(): Histogram
    {
        return $this->histogram ??= new Histogram($this->ns);
    }
}

/** The process that removes expired sessions. */
enum Remover
{
    // PHP's request process, through the handler.
    case Handler;
    // A separate process, with PHP's own collection off.
    case Beside;
    case Server;
    // None: nothing expires in the floor.
    case Nobody;
}

final class Contender
{
    public array $rows = [];
    public ?string $failed = null;
    public Handler $handler;

    public function __construct(
        public readonly string $name,
        public readonly Remover $remover,
        private readonly int $sessions,
        private readonly int $lifetime,
        private readonly int $seed,
    ) {
    }

    /** Moves to empty directories; sessions of earlier phases stay behind. */
    public function move_to(Places $at): void
    {
        $this->handler = gc_handlers($at, $this->sessions)[$this->name];
    }

    public function worker(): Peer
    {
        return new Peer($this->name,
            $this->handler->command($this->sessions, $this->lifetime, $this->seed));
    }

    public function sweeper(): Peer
    {
        $directory = $this->handler->settings['session.save_path'];
        $script = __DIR__ . '/sweep_beside.php';
        return new Peer("the sweep beside $this->name",
            [PHP_BINARY, '-n', $script, $directory, (string) $this->lifetime]);
    }

    public function sessions_that_expire(): int
    {
        return $this->sessions - intdiv($this->sessions - 1, SURVIVOR) - 1;
    }

    public function row(string $condition): Measured
    {
        return $this->rows[$condition] ??= new Measured();
    }
}

const SWEPT = 'files (disk, a sweep beside)';

/** All contenders, with the remover of each. */
const REMOVERS = [
    FLOOR => Remover::Nobody,
    'files (disk)' => Remover::Handler,
    SWEPT => Remover::Beside,
    'sessile (engine, disk)' => Remover::Handler,
    'sessile (engine, shared memory)' => Remover::Handler,
    'sessile (files, disk)' => Remover::Handler,
    'sessile (redis)' => Remover::Server,
    'phpredis (no lock, persistent)' => Remover::Server,
    'phpredis (lock, persistent)' => Remover::Server,
];

function gc_handlers(Places $at, int $sessions): array
{
    return handlers($at, $sessions)
        + [SWEPT => files_handler(SWEPT, 'disk-swept', "$at->disk/swept-files")];
}

function contenders(Places $at, int $sessions, int $lifetime, int $seed,
    array $parts_of_names): array
{
    $contenders = [];
    $here = array_intersect_key(REMOVERS, gc_handlers($at, $sessions));
    foreach (wanted($here, $parts_of_names) as $name => $remover) {
        $contenders[$name] = new Contender($name, $remover, $sessions, $lifetime, $seed);
    }
    return $contenders;
}

/**
 * The contenders that cannot run here and were not excluded by name.
 *
 * @param array<string, Contender> $contenders
 */
function left_out(Places $at, array $contenders, array $parts_of_names): array
{
    $variants = ['sessile (redis)' => ['redis', 'default'],
        'phpredis (no lock, persistent)' => ['phpredis', 'no lock, persistent'],
        'phpredis (lock, persistent)' => ['phpredis', 'lock, persistent']];
    $why = $at->has_redis() ? 'phpredis is not installed (Debian package php-redis)'
        : 'redis-server is not installed (Debian package redis-server)';
    $left_out = [];
    $missing = array_diff_key(wanted($variants, $parts_of_names), $contenders);
    foreach ($missing as [$store, $variant]) {
        $left_out[] = ['store' => $store, 'variant' => $variant, 'workers' => null,
            'reason' => $why];
    }
    return $left_out;
}

/**
 * The versions of the measured software other than Sessile.
 *
 * @param array<string, Contender> $contenders
 * @return array<string, string> by name
 */
function programs(Places $at, array $contenders, int $sessions): array
{
    $theirs = array_filter(array_intersect_key(gc_handlers($at, $sessions), $contenders),
        fn(Handler $handler) => $handler->store === 'phpredis');
    $programs = ['php' => PHP_VERSION];
    foreach (array_slice($theirs, 0, 1) as $handler) {
        $loaded = array_map(fn(string $extension) => '-d ' . escapeshellarg("extension=$extension"),
            $handler->extensions);
        $programs['phpredis'] = (string) exec(escapeshellarg(PHP_BINARY) . ' -n '
            . implode(' ', $loaded) . " -r 'echo phpversion(\"redis\");'");
    }
    return $programs;
}
