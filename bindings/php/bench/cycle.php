<?php
// Times a request's use of its session in PHP: open, read, change, write, close. PHP's files, APCu,
// phpredis, ours, and floors, which keep nothing outside of the process.
//
//   php cycle.php [--json] [ROUNDS] [CALLS] [SESSIONS]
//
// The rows of a round follow each other in random order. Each call adds one to a counter of a
// random session; a row whose counters are wrong at the end has no figure. With --json each row is
// a line: `row`, `op`, `us` of a call in each round, and the changes that were `checked`; or `row`
// with what is `missing`, or `wrong`.
require __DIR__ . '/runtime.php';
load_extensions();
[$as_json, $rounds, $calls, $sessions] = arguments(30, 1_000, 1_000);
$shm = place('SESSILE_BENCH_DIR', '/dev/shm');
$disk = place('SESSILE_BENCH_DISK', '/var/tmp');

/** Keeps what PHP gives it in an array of the process. */
final class ArrayHandler implements SessionHandlerInterface
{
    private array $kept = [];

    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string
    {
        return $this->kept[$id] ?? '';
    }

    public function write(string $id, string $data): bool
    {
        $this->kept[$id] = $data;
        return true;
    }

    public function destroy(string $id): bool
    {
        unset($this->kept[$id]);
        return true;
    }

    public function gc(int $max_lifetime): int
    {
        return 0;
    }
}

/** The socket of a private Redis server; null without one. */
function redis_server(string $place): ?string
{
    $socket = "$place/redis";
    $command = ['redis-server', '--port', '0', '--unixsocket', $socket, '--dir', $place,
        '--save', '', '--appendonly', 'no', '--hz', '100'];
    $server = @proc_open($command, [1 => ['file', '/dev/null', 'w'],
        2 => ['file', '/dev/null', 'w']], $pipes);
    for ($tries = 0; $server && !file_exists($socket); $tries++) {
        if ($tries === 500 || !proc_get_status($server)['running']) {
            return null;
        }
        usleep(10_000);
    }
    if ($server) {
        register_shutdown_function(fn() => proc_terminate($server));
    }
    return $server ? $socket : null;
}

/** Names of rows with a function that makes PHP use the handler, or with what is missing. */
function handlers(string $shm, string $disk): array
{
    $redis = redis_server($shm);
    $ours = [OURS_MISSING => extension_loaded('sessile')];
    $server = ['redis-server (Debian package redis-server)' => $redis !== null];
    $phpredis = ['phpredis (Debian package php-redis)' => extension_loaded('redis')] + $server;
    $needs = fn(array $needed, Closure $use) => array_search(false, $needed, true) ?: $use;
    $set = fn(array $settings) => fn() => configure($settings);
    $locking = fn(int $locks) => $set(['redis.session.locking_enabled' => $locks,
        'session.save_handler' => 'redis',
        'session.save_path' => "unix://$redis?prefix=$locks:&persistent=1"]);
    $apcu = function (): void {
        require_once dirname(__DIR__, 3) . '/bench/contenders/php/handlers/apcu.php';
        session_set_save_handler(SESSION_HANDLER);
    };
    $array = new ArrayHandler();
    return [
        'files' => $set(files("$disk/files")),
        'files, shm' => $set(files("$shm/files")),
        'apcu, no lock' =>
            $needs(['APCu (Debian package php-apcu)' => extension_loaded('apcu')], $apcu),
        'phpredis, no lock' => $needs($phpredis, $locking(0)),
        'phpredis, lock' => $needs($phpredis, $locking(1)),
        'sessile' => $needs($ours, $set(ours("sessile:$shm/engine"))),
        'sessile, disk' =>
            $needs($ours, $set(ours("sessile:$disk/engine?durability=none&control=$shm"))),
        'sessile, redis' => $needs($ours + $server, $set(ours("redis+unix:$redis"))),
        'floor: a user handler, an array' => fn() => session_set_save_handler($array),
    ];
}

/** A session in which one call adds one to a counter. */
function change(string $id): void
{
    start($id);
    $_SESSION['n'] = $_SESSION['n'] + 1;
    session_write_close();
}

/** The changes that the sessions of a handler have seen; damaged ones have seen none. */
function counted(array $ids): int
{
    $sum = 0;
    foreach ($ids as $i => $id) {
        start($id, ['read_and_close' => true]);
        $sum += is_whole($i) ? $_SESSION['n'] : 0;
    }
    return $sum;
}

function microseconds(Closure $call, int $calls, int $last): float
{
    $begin = hrtime(true);
    for ($call_number = 0; $call_number < $calls; $call_number++) {
        $call(mt_rand(0, $last));
    }
    return (hrtime(true) - $begin) / 1e3 / $calls;
}

$ids = ids($sessions);
$kept = array_map(fn(int $i) => serialize(['n' => 0, 'text' => text_of($i)]), array_keys($ids));
$handlers = handlers($shm, $disk);
$use = array_filter($handlers, 'is_object');
foreach ($use as $choose) {
    $choose();
    array_walk($ids, 'fill_one');
}
const SERIALISER = 'floor: serialize alone';
$us = [];
for ($round = 0; $round < $rounds; $round++) {
    $order = [...array_keys($use), SERIALISER];
    shuffle($order);
    foreach ($order as $name) {
        if ($name === SERIALISER) {
            $call = function (int $i) use (&$kept): void {
                $data = unserialize($kept[$i]);
                $data['n']++;
                $kept[$i] = serialize($data);
            };
        } else {
            $use[$name]();
            $call = fn(int $i) => change($ids[$i]);
        }
        // The first one opens files and connections.
        $call(0);
        $us[$name][] = microseconds($call, $calls, $sessions - 1);
    }
}

$made = $rounds * ($calls + 1);
$row = fn(string $name, int $seen) => ['row' => "php $name", 'op' => 'change', 'us' => $us[$name],
    'sessions' => $sessions, 'checked' => $seen]
    + ($seen === $made ? [] : ['wrong' => "$seen of $made changes are there"]);
$rows = [];
foreach ($handlers as $name => $handler) {
    if (is_string($handler)) {
        $rows[] = ['row' => "php $name", 'op' => 'change', 'missing' => $handler];
        continue;
    }
    $handler();
    $rows[] = $row($name, counted($ids));
}
$rows[] = $row(SERIALISER, array_sum(array_map(fn(string $it) => unserialize($it)['n'], $kept)));
print_rows($rows, $as_json);
