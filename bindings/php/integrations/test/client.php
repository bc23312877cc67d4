<?php
// Serves an application with PHP's own web server, requests pages and judges the answers: php
// client.php APPLICATION DIRECTORY INI-SETTING...

const CLIENTS = 8;
[, $application, $directory] = $argv;
$settings = array_slice($argv, 3);

function fail(string $why): never
{
    global $directory;
    fwrite(STDERR, "failed: $why\n");
    foreach (['server.log', 'errors.log'] as $log) {
        fwrite(STDERR, implode('', array_slice(@file("$directory/$log") ?: [], -20)));
    }
    exit(1);
}

function start_server(): int
{
    global $application, $directory, $settings;
    $probe = stream_socket_server('tcp://127.0.0.1:0');
    $address = stream_socket_get_name($probe, false);
    fclose($probe);
    $arguments = ['-n'];
    foreach (['display_errors=0', 'log_errors=1', 'error_log=' . "$directory/errors.log",
        ...$settings] as $setting) {
        array_push($arguments, '-d', $setting);
    }
    $environment = ['PHP_CLI_SERVER_WORKERS' => CLIENTS, 'TEST_DIRECTORY' => $directory,
        'PATH' => getenv('PATH')];
    $log = ['file', "$directory/server.log", 'a'];
    // In its own process group: the workers do not end with their server.
    $process = proc_open(['setsid', PHP_BINARY, ...$arguments, '-S', $address, $application],
        [1 => $log, 2 => $log], $pipes, null, $environment);
    register_shutdown_function(function () use ($process) {
        exec('kill -- -' . proc_get_status($process)['pid']);
        proc_close($process);
    });
    for ($tries = 0; $tries < 200; $tries++) {
        if ($socket = @stream_socket_client("tcp://$address")) {
            fclose($socket);
            return (int) substr(strrchr($address, ':'), 1);
        }
        usleep(50_000);
    }
    fail('the server does not start');
}

/** Sends all requests before it reads an answer. Returns [body, cookies] of each. */
function get_all(array $paths, array $cookies): array
{
    global $port;
    $header = implode('; ',
        array_map(fn ($name, $value) => "$name=$value", array_keys($cookies), $cookies));
    $sockets = [];
    foreach ($paths as $path) {
        $sockets[] = $socket = stream_socket_client("tcp://127.0.0.1:$port")
            ?: fail('the server is gone');
        fwrite($socket, "GET /$path HTTP/1.0\r\nHost: 127.0.0.1\r\n"
            . ($header === '' ? '' : "Cookie: $header\r\n") . "\r\n");
    }
    $answers = [];
    foreach ($sockets as $i => $socket) {
        [$head, $body] = explode("\r\n\r\n", stream_get_contents($socket), 2) + [1 => ''];
        preg_match('/^HTTP\/1.. 200 /', $head)
            || fail("$paths[$i] answers " . substr("$head\n$body", 0, 2000));
        preg_match_all('/^Set-Cookie: ([^=]+)=([^;\r]*)/mi', $head, $set, PREG_SET_ORDER);
        $changed = $cookies;
        foreach ($set as [, $name, $value]) {
            $changed[$name] = $value;
        }
        $answers[] = [$body,
            array_filter($changed, fn ($value) => $value !== '' && $value !== 'deleted')];
    }
    return $answers;
}

function get(string $path, array &$cookies): string
{
    [[$body, $cookies]] = get_all([$path], $cookies);
    return $body;
}

function same(string $expected, string $body, string $what): void
{
    $body === $expected || fail("$what: $body instead of $expected");
}

function data_are_kept_over_requests(): void
{
    $cookies = [];
    foreach (['1', '2', '3'] as $n) {
        same($n, get('count', $cookies), 'the counter');
    }
}

function parallel_requests_lose_nothing(): void
{
    $cookies = [];
    same('1', get('count', $cookies), 'the counter');
    for ($round = 0; $round < 5; $round++) {
        get_all(array_fill(0, CLIENTS, 'count'), $cookies);
    }
    same((string) (2 + 5 * CLIENTS), get('count', $cookies), 'the counter after parallel requests');
}

function a_log_in_changes_the_id_and_keeps_the_data(): void
{
    $cookies = [];
    get('count', $cookies);
    $before = $cookies;
    get('login', $cookies);
    $cookies !== $before || fail('the id stays at a log-in');
    same('2', get('count', $cookies), 'the counter after a log-in');
    same('anna', get('user', $cookies), 'the user');
    same('nobody', get('user', $before), 'the user of the old id');
}

function a_log_out_ends_the_session(): void
{
    $cookies = [];
    get('login', $cookies);
    $stolen = $cookies;
    same('anna', get('user', $cookies), 'the user');
    get('logout', $cookies);
    same('nobody', get('user', $stolen), 'the user after a log-out');
    same('1', get('count', $stolen), 'the counter after a log-out');
}

/** The applications have a lifetime of 6 or 18 seconds and collect garbage at each request. */
function sessions_expire_and_are_collected(): void
{
    global $directory;
    $cookies = $others = [];
    get('count', $cookies);
    // By the kind in the file's header (crates/stores/design/files.md): destroyed sessions leave a
    // tombstone.
    $is_session = fn ($file) => substr((string) @file_get_contents($file, length: 9), 8) === "\x01";
    $stored = fn () => count(array_filter(glob("$directory/files/*/*/[!~]*"), $is_session));
    if ($stored() === 0) {
        echo "skipped, on this store: ";
        return;
    }
    // The reading session is touched and stays.
    get('count', $others);
    for ($deadline = microtime(true) + 60; $stored() > 1; usleep(100_000)) {
        microtime(true) < $deadline || fail("{$stored()} sessions are still stored");
        get('user', $others);
    }
    same('1', get('count', $cookies), 'the counter of an expired session');
}

/** Only Drupal ends the sessions of a user from outside. */
function a_revoked_session_is_empty_and_stays_so(): void
{
    $cookies = [];
    get('login', $cookies);
    get('revoke', $cookies);
    same('nobody', get('user', $cookies), 'the user of a revoked session');
    same('1', get('count', $cookies), 'the counter of a revoked session');
    same('nobody', get('user', $cookies), 'the user of a revoked session');
}

$port = start_server();
$tests = ['data_are_kept_over_requests', 'parallel_requests_lose_nothing',
    'a_log_in_changes_the_id_and_keeps_the_data',
    'a_log_out_ends_the_session', 'sessions_expire_and_are_collected'];
if (str_starts_with(basename($application), 'drupal')) {
    $tests[] = 'a_revoked_session_is_empty_and_stays_so';
}
$more = substr($application, 0, -strlen('.php')) . '_tests.php';
if (is_file($more)) {
    $tests = array_merge($tests, require $more);
}
foreach ($tests as $test) {
    $test();
    echo str_replace('_', ' ', $test), "\n";
}
