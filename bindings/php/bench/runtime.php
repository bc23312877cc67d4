<?php
// What cycle.php and collector.php share: a PHP that has the extensions of all handlers and no
// php.ini, private places, sessions whose content is known, and rows as lines of JSON.
//
// SESSILE_PHP_MODULE names the extension sessile, SESSILE_BENCH_DIR and SESSILE_BENCH_DISK are
// directories in memory and on a disk. Nothing of a run remains in them.

// 1,400 bytes when serialised.
const TEXT_BYTES = 1360;
const LIFETIME = 14_400;

/** Starts the program once more with all extensions, and returns only there. */
function load_extensions(): void
{
    if (getenv('SESSILE_BENCH_LOADED')) {
        return;
    }
    putenv('SESSILE_BENCH_LOADED=1');
    $built = dirname(__DIR__, 3) . '/target/php-release-' . PHP_VERSION . '/modules/sessile.so';
    $command = [PHP_BINARY, '-n', '-d', 'memory_limit=-1', '-d', 'display_errors=stderr',
        '-d', 'session.use_cookies=0', '-d', 'session.use_only_cookies=0',
        '-d', 'session.cache_limiter=', '-d', 'session.gc_probability=0',
        '-d', 'session.gc_divisor=10', '-d', 'session.gc_maxlifetime=' . LIFETIME,
        '-d', 'apc.enable_cli=1', '-d', 'apc.shm_size=1G'];
    // Debian's phpredis loads only after igbinary.
    $files = array_map(fn(string $name) => ini_get('extension_dir') . "/$name.so",
        ['igbinary', 'redis', 'apcu']);
    foreach ([...$files, getenv('SESSILE_PHP_MODULE') ?: $built] as $file) {
        if (is_file($file)) {
            array_push($command, '-d', "extension=$file");
        }
    }
    $program = proc_open([...$command, ...$GLOBALS['argv']], [STDIN, STDOUT, STDERR], $pipes);
    exit(proc_close($program));
}

/** @return array{bool, int, int, int} whether rows are JSON, rounds, calls of a round, sessions */
function arguments(int $rounds, int $calls, int $sessions): array
{
    $words = array_slice($GLOBALS['argv'], 1);
    $numbers = array_values(array_map('intval', array_diff($words, ['--json'])));
    return [in_array('--json', $words, true), ...array_replace([$rounds, $calls, $sessions],
        $numbers)];
}

/** A fresh directory that is removed at the end. */
function place(string $variable, string $default): string
{
    $place = (getenv($variable) ?: $default) . '/php-' . bin2hex(random_bytes(8));
    mkdir($place, 0700, true) || exit(1);
    register_shutdown_function(fn() => exec('rm -rf ' . escapeshellarg($place)));
    return $place;
}

/** The settings of PHP's own files in a directory. */
function files(string $directory): array
{
    is_dir($directory) || mkdir($directory);
    return ['session.save_handler' => 'files', 'session.save_path' => $directory];
}

function ours(string $url): array
{
    return ['session.save_handler' => 'sessile', 'session.save_path' => $url];
}

const OURS_MISSING = 'the extension sessile (make php)';

function configure(array $settings): void
{
    foreach ($settings as $name => $value) {
        if (ini_set($name, (string) $value) === false) {
            throw new RuntimeException("PHP does not take $name = $value");
        }
    }
}

/** @return list<string> */
function ids(int $sessions): array
{
    $ids = [];
    for ($i = 0; $i < $sessions; $i++) {
        $ids[] = bin2hex(random_bytes(16));
    }
    return $ids;
}

function text_of(int $i): string
{
    return str_pad((string) $i, TEXT_BYTES, 'x');
}

/** A failed start leaves an array that looks like a session. */
function start(string $id, array $options = []): void
{
    session_id($id);
    if (!session_start($options)) {
        throw new RuntimeException('a session cannot be started');
    }
}

function fill_one(string $id, int $i): void
{
    start($id);
    $_SESSION = ['n' => 0, 'text' => text_of($i)];
    session_write_close();
}

/** Whether the session that was started last has its content. */
function is_whole(int $i): bool
{
    return ($_SESSION['text'] ?? '') === text_of($i);
}

/** Prints rows as lines of JSON, or as a table; then ends, without JSON with 1 if one is wrong. */
function print_rows(array $rows, bool $as_json): never
{
    foreach ($rows as $row) {
        if ($as_json) {
            echo json_encode($row), "\n";
            continue;
        }
        $name = sprintf('%-36s %-12s', $row['row'], $row['op']);
        $why = isset($row['missing']) ? "$row[missing] is not installed" : $row['wrong'] ?? null;
        if ($why !== null) {
            echo "$name $why\n";
            continue;
        }
        printf('%s %9.2f us fastest, %9.2f slowest of %d rounds', $name, min($row['us']),
            max($row['us']), count($row['us']));
        if (isset($row['latency_us'])) {
            $of = $row['latency_us'];
            printf('; of a call: median %.1f, p99.9 %.1f, longest %.1f us', $of['p50'], $of['p999'],
                $of['max']);
        }
        printf("; %d checked of %d sessions\n", $row['checked'], $row['sessions']);
    }
    exit($as_json || !array_filter($rows, fn(array $row) => isset($row['wrong'])) ? 0 : 1);
}
