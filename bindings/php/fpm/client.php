<?php
// Requests pages, several at a time, and judges the answers: php client.php PORT DIRECTORY PID
// [SIGNAL]. PID is that of php-fpm or Apache; SIGNAL makes it reload.

const CLIENTS = 8;
[, $port, $directory, $server] = $argv;
$reload_signal = $argv[4] ?? 'USR2';

/** [body, session cookie, names of all cookies], or null without an answer of status 200. */
function get(string $query, ?string $cookie = null, float $timeout = 30): ?array
{
    global $port;
    $header = $cookie === null ? '' : "Cookie: $cookie\r\n";
    $options = ['header' => $header, 'timeout' => $timeout, 'ignore_errors' => true];
    $body = @file_get_contents("http://127.0.0.1:$port/page.php?$query", false,
        stream_context_create(['http' => $options]));
    if ($body === false || !preg_match('/ 200 /', $http_response_header[0])) {
        return null;
    }
    $set = preg_grep('/^Set-Cookie: PHPSESSID=/i', $http_response_header);
    $names = preg_filter('/^Set-Cookie: ([^=]*)=.*/i', '$1', $http_response_header);
    return [$body, $set ? preg_replace('/^[^:]*: ([^;]*).*/', '$1', end($set)) : null,
        array_values($names)];
}

function fail(string $why): never
{
    fwrite(STDERR, "failed: $why\n");
    exit(1);
}

/** By the command: Debian's php-cli has posix_kill() in an extension, which -n leaves out. */
function signal(string $name, int $pid): bool
{
    exec("kill -$name $pid 2>&1", $output, $code);
    return $pid > 0 && $code === 0;
}

function new_session(): string
{
    [$body, $cookie] = get('do=count') ?? fail('the first page of a session');
    $body === '1' && $cookie !== null || fail("a new session counts $body");
    return $cookie;
}

/** Runs $client(number) in CLIENTS processes at a time. Returns what they return. */
function together(callable $client, ?callable $meanwhile = null): array
{
    $pipes = [];
    for ($number = 0; $number < CLIENTS; $number++) {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($pair[0], json_encode($client($number)));
            exit(0);
        }
        fclose($pair[0]);
        // Else PHP reads nothing after a minute, however long the clients take.
        stream_set_timeout($pair[1], 1800);
        $pipes[] = $pair[1];
    }
    if ($meanwhile !== null) {
        $meanwhile();
    }
    $results = array_map(fn ($pipe) => json_decode(stream_get_contents($pipe))
        ?? fail('a client ended early'), $pipes);
    while (pcntl_wait($status) > 0);
    return $results;
}

/**
 * Clients increment the counter of one session concurrently. Returns the number of answers and of
 * lost requests. Fails on an answer that is not a number above the previous one.
 */
function count_together(string $cookie, int $times, ?callable $meanwhile = null): array
{
    $client = function () use ($cookie, $times) {
        [$answered, $lost, $last, $wrong] = [0, 0, 0, ''];
        for ($i = 0; $i < $times; $i++) {
            $body = get('do=count', $cookie)[0] ?? null;
            if ($body === null) {
                $lost++;
            } elseif (!preg_match('/^\d+$/D', $body) || (int) $body <= $last) {
                $wrong = substr($body, 0, 200) . " after $last";
            } else {
                [$answered, $last] = [$answered + 1, (int) $body];
            }
        }
        return [$answered, $lost, $wrong];
    };
    $total = [0, 0];
    foreach (together($client, $meanwhile) as [$answered, $lost, $wrong]) {
        $wrong === '' || fail("a page answers: $wrong");
        $total = [$total[0] + $answered, $total[1] + $lost];
    }
    return $total;
}

function counter(string $cookie): int
{
    return (int) (get('do=count', $cookie) ?? fail('the last page of a session'))[0] - 1;
}

function parallel_requests_and_recycled_workers(): string
{
    $cookie = new_session();
    [$answered, $lost] = count_together($cookie, 200);
    $lost === 0 || fail("$lost requests got no answer");
    $n = counter($cookie);
    $n === 1 + CLIENTS * 200 || fail("the counter is $n after $answered requests");
    return "$answered requests on one session";
}

function parallel_requests_that_are_merged(): string
{
    $times = (int) (getenv('SESSILE_MERGE_REQUESTS') ?: 100);
    $cookie = new_session();
    $conflicts = array_sum(together(function ($number) use ($cookie, $times) {
        $sum = 0;
        for ($i = 0; $i < $times; $i++) {
            $body = get("do=merge&key=$number-$i", $cookie)[0] ?? '';
            $sum += is_numeric($body) ? (int) $body : 1_000_000;
        }
        return $sum;
    }));
    ['cart' => $cart, 'last' => $last] = json_decode(get('do=peek', $cookie)[0], true)['shop'];
    count($cart) === CLIENTS * $times || fail(count($cart) . ' keys of ' . CLIENTS * $times);
    // The keys stand in the order of the commits.
    [$expected, $before] = [0, ''];
    foreach ($cart as $key => $read) {
        $expected += (int) ($read !== $before);
        $before = $key;
    }
    $last === $before || fail("the last one is $last, and not $before");
    $conflicts === $expected || fail("$conflicts conflicts are counted, and there were $expected");
    return count($cart) . " keys of as many requests, $conflicts conflicts";
}

function a_worker_that_dies_with_the_lock(): string
{
    global $directory;
    $cookie = new_session();
    $longest = 0;
    for ($kill = 0; $kill < 5; $kill++) {
        $note = "$directory/pages/held";
        @unlink($note);
        if (pcntl_fork() === 0) {
            get('do=hold', $cookie);
            exit(0);
        }
        for ($i = 0; $i < 1000 && !(is_file($note) && filesize($note) > 0); $i++) {
            usleep(10_000);
            clearstatcache();
        }
        signal('KILL', (int) file_get_contents($note)) || fail('no worker holds the session');
        $start = microtime(true);
        $n = (get('do=count', $cookie) ?? fail('a page after a worker died'))[0];
        $longest = max($longest, microtime(true) - $start);
        // Changes that the dead worker had not stored are gone.
        $n === (string) ($kill + 2)
            || fail("the counter is $n after $kill requests and a killed worker");
        pcntl_wait($status);
    }
    $longest < 2 || fail(sprintf('a request waited %.1f s for a dead worker', $longest));
    return sprintf('5 killed, the next request took at most %d ms', $longest * 1000);
}

function a_reload_of_the_server(): string
{
    global $server, $reload_signal;
    $cookie = new_session();
    $reload = function () use ($server, $reload_signal) {
        for ($i = 0; $i < 3; $i++) {
            usleep(300_000);
            signal($reload_signal, (int) $server) || fail('there is nothing to reload');
        }
    };
    [$answered, $lost] = count_together($cookie, 150, $reload);
    // Of the last reload workers may still be ending: one that took a longer request of the next
    // test would be cut off with it.
    usleep(500_000);
    $n = counter($cookie) - 1;
    // A request that was cut off may have been counted; one that was answered was counted.
    $n >= $answered && $n <= $answered + $lost
        || fail("the counter is $n after $answered answers and $lost without");
    return "$answered requests over three reloads, $lost without an answer";
}

function the_cookie_of_an_empty_session(): string
{
    [, , $names] = get('do=empty') ?? fail('an empty session');
    $names === ['first', 'second']
        || fail('the cookies of a page with an empty session are: ' . implode(', ', $names));
    [, , $names] = get('do=peek') ?? fail('a new session that is only read');
    $names === [] || fail('a new session that is only read sets: ' . implode(', ', $names));
    // After the headers the cookie stays, and the empty session is stored under its id.
    [$body, $cookie, $names] = get('do=late') ?? fail('an empty session after the headers');
    $body === 'headers are sent' && $names === ['PHPSESSID']
        || fail("a session that is saved after the headers: $body");
    counter($cookie) === 0 || fail('an empty session has a value');
    return 'is withdrawn, and no other';
}

/** PHP saves the progress of an upload before the page runs; other pages of the session see it. */
function the_progress_of_an_upload(): string
{
    global $port;
    $cookie = new_session();
    $start = "--end\r\nContent-Disposition: form-data; name=\"PHP_SESSION_UPLOAD_PROGRESS\"\r\n"
        . "\r\nphoto\r\n"
        . "--end\r\nContent-Disposition: form-data; name=\"file\"; filename=\"photo\"\r\n\r\n";
    $body = $start . str_repeat('x', 500_000) . "\r\n--end--\r\n";
    $length = strlen($body);
    $head = "POST /page.php?do=upload HTTP/1.0\r\nHost: 127.0.0.1\r\nCookie: $cookie\r\n"
        . "Content-Length: $length\r\nContent-Type: multipart/form-data; boundary=end\r\n\r\n";
    $upload = stream_socket_client("tcp://127.0.0.1:$port");
    stream_set_timeout($upload, 30);
    fwrite($upload, $head . substr($body, 0, 300_000));
    $deadline = microtime(true) + 10;
    do {
        $seen = json_decode((get('do=peek', $cookie) ?? fail('a page beside an upload'))[0], true);
        $progress = $seen['upload_progress_photo'] ?? ['bytes_processed' => 0];
        microtime(true) < $deadline || fail('the progress of an upload is ' . json_encode($seen));
    } while ($progress['bytes_processed'] < 200_000);
    $progress['content_length'] === $length && !$progress['done']
        || fail('the progress of half an upload is ' . json_encode($seen));
    // A page saves a change during the upload: both are kept.
    $n = (get('do=count', $cookie) ?? fail('a page that saves beside an upload'))[0];
    fwrite($upload, substr($body, 300_000));
    $answer = preg_replace('/.*\r\n\r\n/s', '', stream_get_contents($upload));
    $n === '2' && $answer === '[500000,{"n":3}]'
        || fail("a session counts $n beside an upload, and after it is $answer");
    return "is seen at {$progress['bytes_processed']} of $length bytes, and gone after it";
}

function opcache_is_on(): string
{
    (get('do=opcache')[0] ?? '') === '1' || fail('OPcache is off');
    return 'in the workers';
}

foreach (['opcache_is_on', 'parallel_requests_and_recycled_workers',
    'parallel_requests_that_are_merged',
    'a_worker_that_dies_with_the_lock',
    'a_reload_of_the_server', 'the_cookie_of_an_empty_session',
    'the_progress_of_an_upload'] as $test) {
    echo str_replace('_', ' ', $test), ': ', $test(), "\n";
}
