<?php
// Sends requests by turns to PHP's handler `files` and to sessile on one directory:
// php client.php MODULE DIRECTORY DEPTH LIFETIME [COMMAND...]. COMMAND runs PHP as another user.

const PAUSE_US = 300_000;
const COUNTS = 25;
[, $module, $directory, $depth, $lifetime] = $argv;
$as_user = array_slice($argv, 5);
$ours = "files:$directory?php=1&depth=$depth&maxlifetime=$lifetime";
$handlers = [
    'files' => ['session.save_path' => "$depth;$directory"],
    'sessile' => ['session.save_path' => $ours, 'sessile.lock_wait' => '10'],
    'merge' => ['session.save_path' => $ours, 'sessile.lock_wait' => '10',
        'sessile.concurrency' => 'merge', 'session.save_handler' => 'sessile'],
];

function check(bool $holds, string $what): void
{
    if (!$holds) {
        fwrite(STDERR, "failed: $what\n");
        exit(1);
    }
}

/** Starts a request: [process, its input, its output]. */
function begin(string $handler, string $id, string $do, string $value = '', array $more = []): array
{
    global $module, $lifetime, $as_user, $handlers;
    $settings = $more + $handlers[$handler] + ['extension' => $module, 'log_errors' => '0',
        'session.save_handler' => $handler, 'session.gc_maxlifetime' => $lifetime,
        'session.gc_probability' => '0', 'session.use_strict_mode' => '1',
        'session.use_cookies' => '0', 'session.cache_limiter' => ''];
    $command = [...$as_user, PHP_BINARY, '-n'];
    foreach ($settings as $name => $setting) {
        array_push($command, '-d', "$name=\"$setting\"");
    }
    array_push($command, __DIR__ . '/page.php', $id, $do, $value);
    $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $pipes);
    return [$process, ...$pipes];
}

function finish(array $request): array
{
    [$process, $in, $out] = $request;
    fclose($in);
    $answer = stream_get_contents($out);
    proc_close($process);
    $decoded = json_decode($answer, true);
    check(is_array($decoded), "a request answered '$answer'");
    return $decoded;
}

function request(string $handler, string $id, string $do, string $value = '',
    array $more = []): array
{
    return finish(begin($handler, $id, $do, $value, $more));
}

/** A log-in by $handler: the visitor's id. */
function log_in(string $handler): string
{
    $id = request($handler, bin2hex(random_bytes(16)), 'log-in', 'ann')['id'] ?? '';
    check($id !== '', "$handler: a log-in");
    return $id;
}

function session_file(string $id): string
{
    global $directory, $depth;
    $below = implode('', array_map(fn ($n) => $id[$n] . '/', array_keys(array_fill(0, $depth, 0))));
    return "$directory/{$below}sess_$id";
}

function goes_on(string $first, string $second): void
{
    $id = log_in($first);
    $expected = ['user' => 'ann'];
    foreach ([$second, $first, $second, $first] as $n => $handler) {
        $expected['cart'][] = "book $n";
        $answer = request($handler, $id, 'add', "book $n");
        check($answer === ['id' => $id, 'session' => $expected],
            "a log-in by $first goes on with $handler: " . json_encode($answer));
    }
    $new = request($second, $id, 'log-in', 'bea')['id'];
    check($new !== $id, "$second gives another id");
    check(request($first, $new, 'look')['session']['user'] === 'bea', "$first finds it");
    check(request($first, $id, 'look')['session'] === [], "$first: the replaced id is empty");
    request($second, $new, 'log-out');
    foreach ([$first, $second] as $handler) {
        $answer = request($handler, $new, 'look');
        check($answer['session'] === [] && $answer['id'] !== $new,
            "a log-out by $second is one for $handler: " . json_encode($answer));
    }
}

function waits(string $holder, string $waiter): void
{
    $id = log_in($holder);
    $held = begin($holder, $id, 'hold', 'first');
    check(fgets($held[2]) === "held\n", "$holder holds a session");
    $waiting = begin($waiter, $id, 'add', 'second');
    usleep(PAUSE_US);
    check(proc_get_status($waiting[0])['running'], "$waiter waits for $holder");
    if ($waiter !== 'files') {
        $late = request($waiter, $id, 'look', '', ['sessile.lock_wait' => '0.1']);
        check(str_contains($late['failed'] ?? '', 'process'),
            "$waiter says who holds it: " . json_encode($late));
    }
    finish($held);
    check(finish($waiting)['session'] ===
        ['user' => 'ann', 'held' => 'first', 'cart' => ['second']],
        "$waiter sees what $holder has saved");
}

/** Merge has a lock only where files have no version. */
function merges(): void
{
    foreach (['add', 'log-out'] as $do) {
        $id = log_in('merge');
        $held = begin('merge', $id, 'hold', 'first');
        fgets($held[2]);
        $other = begin('files', $id, $do, 'second');
        usleep(PAUSE_US);
        finish($held);
        finish($other);
        $session = request('files', $id, 'look')['session'];
        ksort($session);
        $expected = ['cart' => ['second'], 'held' => 'first', 'user' => 'ann'];
        check($session === ($do === 'add' ? $expected : []),
            "merge beside $do by files: " . json_encode($session));
    }
}

function late_save_after_log_out(string $late, string $other): void
{
    $id = log_in($late);
    $held = begin($late, $id, 'hold', 'late');
    fgets($held[2]);
    unlink(session_file($id)); // what a log-out does on the disk
    finish($held);
    check(request($other, $id, 'look')['session'] === [], "$late saves nothing after a log-out");
}

function counts_together(): void
{
    $id = log_in('files');
    for ($round = 0; $round < COUNTS; $round++) {
        $requests = [];
        foreach (['files', 'sessile', 'files', 'sessile'] as $handler) {
            $requests[] = begin($handler, $id, 'count');
        }
        array_map('finish', $requests);
    }
    $count = request('sessile', $id, 'look')['session']['count'];
    check($count === 4 * COUNTS, "of " . 4 * COUNTS . " changes by both $count are there");
}

function expires(): void
{
    global $lifetime;
    foreach (['files', 'sessile'] as $writer) {
        $id = log_in($writer);
        clearstatcache();
        $age = time() - filemtime(session_file($id));
        check(abs($age) <= 5, "$writer: the file is $age s old after a save");
        touch(session_file($id), time() - $lifetime + 60);
        foreach (['files', 'sessile'] as $reader) {
            check(isset(request($reader, $id, 'look')['session']['user']),
                "$reader: a session of $writer that has 60 s left");
        }
        touch(session_file($id), time() - $lifetime - 60);
        check(request('sessile', $id, 'look')['session'] === [], "sessile: an expired session");
    }
}

goes_on('files', 'sessile');
goes_on('sessile', 'files');
waits('files', 'sessile');
waits('sessile', 'files');
waits('files', 'merge');
merges();
late_save_after_log_out('files', 'sessile');
late_save_after_log_out('sessile', 'files');
expires();
if ($depth === '0') {
    counts_together();
}
