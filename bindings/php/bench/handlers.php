<?php
// The measured save handlers: PHP settings and properties of each.

final class Handler
{
    /**
     * @param list<string> $extensions in load order
     * @param array<string, string|int> $settings
     */
    public function __construct(
        public readonly string $name,
        public readonly string $store,
        public readonly string $variant,
        public readonly string $durability,
        public readonly array $extensions,
        public readonly array $settings,
    ) {
    }

    /** Where the work is done; figures are compared within one kind. */
    public function kind(): string
    {
        return str_contains($this->name, 'redis') ? 'socket' : 'embedded';
    }

    /** The command of a PHP process with this handler, without the machine's php.ini. */
    public function command(int $sessions, int $lifetime, int $seed = 1): array
    {
        $command = [PHP_BINARY, '-n'];
        foreach ($this->extensions as $extension) {
            array_push($command, '-d', "extension=$extension");
        }
        $settings = $this->settings + ['session.use_cookies' => 0, 'session.use_only_cookies' => 0,
            'session.cache_limiter' => '', 'session.gc_probability' => 0,
            'session.gc_divisor' => 10,
            'session.gc_maxlifetime' => $lifetime, 'memory_limit' => '8G',
            'opcache.enable_cli' => 0];
        foreach ($settings as $key => $value) {
            array_push($command, '-d', "$key=\"$value\"");
        }
        array_push($command, '-d', 'display_errors=stderr', __DIR__ . '/worker.php',
            (string) $sessions, (string) crc32("$seed $this->name"));
        if ($this->store === 'apcu') {
            $command[] = 'apcu';
        }
        return $command;
    }
}

/** Paths: modules, session directories, the socket of the private Redis server if any. */
final class Places
{
    public function __construct(
        public readonly string $sessile,
        public readonly string $floor,
        public readonly string $shm,
        public readonly string $disk,
        public readonly string $redis,
    ) {
    }

    /** The same paths with a new directory in each place. */
    public function within(string $directory): Places
    {
        mkdir("$this->shm/$directory");
        mkdir("$this->disk/$directory");
        return new Places($this->sessile, $this->floor, "$this->shm/$directory",
            "$this->disk/$directory", $this->redis);
    }

    public function has_redis(): bool
    {
        return file_exists($this->redis);
    }

    /**
     * Exits if there is no space for this many copies of the sessions; the largest take a page
     * each.
     */
    public function demand_room(int $sessions, int $copies): void
    {
        foreach ([$this->shm, $this->disk] as $place) {
            if (disk_free_space($place) < $sessions * $copies * 4096 + (1 << 28)) {
                fwrite(STDERR, "there is no room for $copies times $sessions sessions"
                    . " in the directory of $place\n");
                exit(1);
            }
        }
    }
}

const FLOOR = 'floor (array of the process)';

function files_handler(string $name, string $variant, string $directory): Handler
{
    is_dir($directory) || mkdir($directory);
    return new Handler($name, 'php-files', $variant, 'none', [],
        ['session.save_handler' => 'files', 'session.save_path' => $directory]);
}

/** @return array<string, Handler> those that can run here, by name */
function handlers(Places $at, int $sessions): array
{
    $ours = fn(string $name, string $store, string $variant, string $durability, string $url) =>
        new Handler(
        "sessile ($name)", $store, $variant, $durability, [$at->sessile],
        ['session.save_handler' => 'sessile', 'session.save_path' => $url]);
    $handlers = [
        new Handler(FLOOR, 'floor', 'default', 'none', [$at->floor],
            ['session.save_handler' => 'floor']),
        $ours('engine, shared memory', 'sessile', 'shm', 'none', "sessile:$at->shm/engine"),
        $ours('engine, disk', 'sessile', 'disk', '1s', "sessile:$at->disk/engine?control=$at->shm"),
        $ours('files, shared memory', 'files', 'shm', 'none', "files:$at->shm/sessile-files"),
        $ours('files, disk', 'files', 'disk', 'none', "files:$at->disk/sessile-files"),
        files_handler('files (shared memory)', 'shm', "$at->shm/files"),
        files_handler('files (disk)', 'disk', "$at->disk/files"),
    ];
    $has = fn(string $extension) => is_file(ini_get('extension_dir') . "/$extension.so");
    if ($has('apcu')) {
        $memory = max(64, (int) ($sessions * 2.5 / 1024) + 64);
        $handlers[] = new Handler('APCu (no lock)', 'apcu', 'default', 'none', ['apcu'],
            ['apc.enable_cli' => 1, 'apc.shm_size' => "{$memory}M"]);
    }
    if ($at->has_redis()) {
        $handlers[] = $ours('redis', 'redis', 'default', 'none', "redis+unix:$at->redis");
    }
    if ($at->has_redis() && $has('redis')) {
        // Debian's phpredis is built with igbinary and loads only after it.
        $theirs = fn(string $name, string $prefix, array $more, string $options = '') =>
            new Handler(
            "phpredis ($name)", 'phpredis', $name, 'none',
            $has('igbinary') ? ['igbinary', 'redis'] : ['redis'],
            ['session.save_handler' => 'redis',
            'session.save_path' => "unix://$at->redis?prefix=$prefix:$options"] + $more);
        $locks = ['redis.session.locking_enabled' => 1];
        array_push($handlers, $theirs('no lock', 'a', []),
            $theirs('no lock, persistent', 'b', [], '&persistent=1'),
            $theirs('lock', 'c', $locks),
            $theirs('lock, persistent', 'd', $locks, '&persistent=1'));
    }
    return array_column($handlers, null, 'name');
}

function say_what_is_left_out(array $by_extension): void
{
    foreach ($by_extension as $extension => $name) {
        if (!is_file(ini_get('extension_dir') . "/$extension.so")) {
            echo "left out: $name (Debian package php-$extension)\n";
        }
    }
}

/**
 * @param array<string, mixed> $all by name
 * @param list<string> $wanted parts of names; none: all
 */
function wanted(array $all, array $wanted): array
{
    $is = fn(string $name) => !$wanted
        || array_filter($wanted, fn(string $part) => str_contains($name, $part));
    return array_filter($all, $is, ARRAY_FILTER_USE_KEY);
}
