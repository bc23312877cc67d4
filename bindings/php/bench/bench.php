<?php
// Save handlers side by side: scripts/php_bench.sh calls it, and ends the Redis server whose socket is in SHM.
//
//   php bench.php MODULE-OF-SESSILE MODULE-OF-THE-FLOOR SHM DISK SESSIONS ROUNDS SECONDS [HANDLER...]
//
// Each handler has a process; they take turns, in random order, over several rounds. Every change is counted and
// verified at the end. The tables give microseconds for one session_start(), a change and session_write_close().
[, $sessile, $floor, $shm, $disk, $sessions, $rounds, $seconds] = $argv;
$wanted = array_slice($argv, 8);
mkdir("$shm/files");
mkdir("$disk/files");

// The largest take a page for each session.
foreach ([$shm, $disk] as $place) {
    if (disk_free_space($place) < $sessions * 2 * 4096 + (1 << 28)) {
        fwrite(STDERR, "there is no room for $sessions sessions in the directory of $place\n");
        exit(1);
    }
}

$ours = fn(string $url) => ['extension' => $sessile, 'session.save_handler' => 'sessile', 'session.save_path' => $url];
$handlers = [
    'floor (array of the process)' => ['extension' => $floor, 'session.save_handler' => 'floor'],
    'sessile (engine, shared memory)' => $ours("sessile:$shm/engine"),
    'sessile (engine, disk)' => $ours("sessile:$disk/engine"),
    'sessile (files, shared memory)' => $ours("files:$shm/sessile-files"),
    'files (shared memory)' => ['session.save_handler' => 'files', 'session.save_path' => "$shm/files"],
    'files (disk)' => ['session.save_handler' => 'files', 'session.save_path' => "$disk/files"],
];
if (is_file(ini_get('extension_dir') . '/apcu.so')) {
    $memory = max(64, (int) ($sessions * 2.5 / 1024) + 64);
    $handlers['APCu (no lock)'] = ['extension' => 'apcu', 'apc.enable_cli' => 1, 'apc.shm_size' => "{$memory}M"];
}
if (file_exists("$shm/redis")) {
    $handlers['sessile (redis)'] = $ours("redis+unix:$shm/redis");
    if (is_file(ini_get('extension_dir') . '/redis.so')) {
        $theirs = fn(string $options) => ['needs' => 'igbinary', 'extension' => 'redis', 'session.save_handler' => 'redis',
            'session.save_path' => "unix://$shm/redis?$options"];
        $handlers['phpredis (no lock)'] = $theirs('prefix=a:');
        $handlers['phpredis (no lock, persistent)'] = $theirs('prefix=b:&persistent=1');
        $handlers['phpredis (lock)'] = $theirs('prefix=c:') + ['redis.session.locking_enabled' => 1];
        $handlers['phpredis (lock, persistent)'] = $theirs('prefix=d:&persistent=1') + ['redis.session.locking_enabled' => 1];
    }
}
foreach (['apcu' => 'APCu', 'redis' => 'phpredis'] as $extension => $name) {
    if (!is_file(ini_get('extension_dir') . "/$extension.so")) {
        echo "left out: $name (Debian package php-$extension)\n";
    }
}
if ($wanted) {
    $handlers = array_filter($handlers, fn($name) => (bool) array_filter($wanted, fn($w) => str_contains($name, $w)), ARRAY_FILTER_USE_KEY);
}

/** A process with a handler; what it is asked goes in as a line and comes out as JSON. */
final class Worker
{
    private $process;
    private array $pipes = [];
    public array $us = [];
    public int $cycles = 0;

    public function __construct(public string $name, array $settings, int $sessions)
    {
        $command = [PHP_BINARY, '-n'];
        // One that another needs is loaded before it.
        foreach (['needs', 'extension'] as $key) {
            if (isset($settings[$key])) {
                array_push($command, '-d', "extension={$settings[$key]}");
                unset($settings[$key]);
            }
        }
        $settings += ['session.use_cookies' => 0, 'session.use_only_cookies' => 0, 'session.cache_limiter' => '',
            'session.gc_probability' => 0, 'session.gc_maxlifetime' => 14400, 'memory_limit' => '4G', 'opcache.enable_cli' => 0];
        foreach ($settings as $key => $value) {
            array_push($command, '-d', "$key=\"$value\"");
        }
        array_push($command, '-d', 'display_errors=stderr', __DIR__ . '/worker.php', (string) $sessions, (string) crc32($name));
        if (str_starts_with($name, 'APCu')) {
            $command[] = 'apcu';
        }
        $this->process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $this->pipes);
    }

    public function ask(string $request): array
    {
        fwrite($this->pipes[0], "$request\n");
        $answer = json_decode((string) fgets($this->pipes[1]), true);
        if ($answer === null) {
            fwrite(STDERR, "$this->name ended while it was asked to $request\n");
            exit(1);
        }
        return $answer;
    }

    public function end(): void
    {
        fclose($this->pipes[0]);
        proc_close($this->process);
    }
}

$workers = [];
foreach ($handlers as $name => $settings) {
    fwrite(STDERR, "fill in $sessions sessions: $name\n");
    $workers[$name] = new Worker($name, $settings, (int) $sessions);
    $workers[$name]->ask('fill');
}
for ($round = 1; $round <= $rounds; $round++) {
    fwrite(STDERR, "round $round of $rounds\n");
    $order = array_keys($workers);
    shuffle($order);
    foreach ($order as $name) {
        $answer = $workers[$name]->ask("run $seconds");
        $workers[$name]->us[] = $answer['us'];
        $workers[$name]->cycles += $answer['cycles'];
    }
}
$median = function (array $values): float {
    sort($values);
    return $values[intdiv(count($values), 2)];
};
$floor_us = isset($workers['floor (array of the process)']) ? $median($workers['floor (array of the process)']->us) : null;
printf("\nPHP %s, %s sessions, %s rounds of %s s\n", PHP_VERSION, $sessions, $rounds, $seconds);
printf("%-34s %10s %18s %10s\n", 'handler', 'us', 'low..high', 'x floor');
$failed = 0;
foreach ($workers as $name => $worker) {
    $sum = $worker->ask('sum')['sum'];
    $times = $floor_us === null ? '' : sprintf('%.2f', $median($worker->us) / $floor_us);
    $range = sprintf('%.2f..%.2f', min($worker->us), max($worker->us));
    $verdict = $sum === $worker->cycles ? '' : "  FAILED: $worker->cycles changes made, $sum found";
    $failed += $verdict !== '';
    printf("%-34s %10.2f %18s %10s%s\n", $name, $median($worker->us), $range, $times, $verdict);
    $worker->end();
}
exit($failed ? 1 : 0);
