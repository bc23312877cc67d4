<?php
// A handler in the experiment of garbage collection, and what was measured of it.

/** One row: starts of one handler under one condition. */
final class Measured
{
    /** @var list<int> */
    public array $ns = [];
    /** @var list<float> calls a second of each round, by their own time */
    public array $rates = [];
    public int $misses = 0;
    public int $errors = 0;
    public float $cpu_us = 0;
    /** @var array{removed: int, seconds: float, cpu_seconds?: float}|null what was removed meanwhile */
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

/** Who removes what has expired. */
enum Remover
{
    // PHP asks the handler to collect.
    case Handler;
    // A process that runs beside, while PHP's own collection is off.
    case Beside;
    // The server, by itself.
    case Server;
    // Nobody: nothing expires in the floor.
    case Nobody;
}

final class Contender
{
    /** @var array<string, Measured> by condition */
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

    /** From now on its sessions are there, and there are none yet. */
    public function move_to(Places $at): void
    {
        $this->handler = gc_handlers($at, $this->sessions)[$this->name];
    }

    /** A process over its sessions. */
    public function worker(): Peer
    {
        return new Peer($this->name, $this->handler->command($this->sessions, $this->lifetime, $this->seed));
    }

    /** The process that sweeps beside. */
    public function sweeper(): Peer
    {
        $directory = $this->handler->settings['session.save_path'];
        return new Peer("the sweep beside $this->name", [PHP_BINARY, '-n', __DIR__ . '/sweep_beside.php', $directory, (string) $this->lifetime]);
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

/** All that take part where they can run, and who removes what has expired in each. */
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

/** @return array<string, Handler> by name */
function gc_handlers(Places $at, int $sessions): array
{
    return handlers($at, $sessions) + [SWEPT => files_handler(SWEPT, 'disk-swept', "$at->disk/swept-files")];
}

/** @return array<string, Contender> by name */
function contenders(Places $at, int $sessions, int $lifetime, int $seed, array $parts_of_names): array
{
    $contenders = [];
    foreach (wanted(array_intersect_key(REMOVERS, gc_handlers($at, $sessions)), $parts_of_names) as $name => $remover) {
        $contenders[$name] = new Contender($name, $remover, $sessions, $lifetime, $seed);
    }
    return $contenders;
}

/**
 * What cannot take part here and was not refused by name, as results list it.
 *
 * @param array<string, Contender> $contenders
 */
function left_out(Places $at, array $contenders, array $parts_of_names): array
{
    $variants = ['sessile (redis)' => ['redis', 'default'], 'phpredis (no lock, persistent)' => ['phpredis', 'no lock, persistent'],
        'phpredis (lock, persistent)' => ['phpredis', 'lock, persistent']];
    $why = $at->has_redis() ? 'phpredis is not installed (Debian package php-redis)'
        : 'redis-server is not installed (Debian package redis-server)';
    $left_out = [];
    foreach (array_diff_key(wanted($variants, $parts_of_names), $contenders) as [$store, $variant]) {
        $left_out[] = ['store' => $store, 'variant' => $variant, 'workers' => null, 'reason' => $why];
    }
    return $left_out;
}

/**
 * The versions of what is measured besides Sessile.
 *
 * @param array<string, Contender> $contenders
 * @return array<string, string> by name
 */
function programs(Places $at, array $contenders, int $sessions): array
{
    $theirs = array_filter(array_intersect_key(gc_handlers($at, $sessions), $contenders), fn(Handler $handler) => $handler->store === 'phpredis');
    $programs = ['php' => PHP_VERSION];
    foreach (array_slice($theirs, 0, 1) as $handler) {
        $loaded = array_map(fn(string $extension) => '-d ' . escapeshellarg("extension=$extension"), $handler->extensions);
        $programs['phpredis'] = (string) exec(escapeshellarg(PHP_BINARY) . ' -n ' . implode(' ', $loaded) . " -r 'echo phpversion(\"redis\");'");
    }
    return $programs;
}
