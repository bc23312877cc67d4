<?php
// Visitors come back again and again while the site changes its store:
// php load.php PORT DIRECTORY PID VISITORS. PID is that of php-fpm, which is reloaded with each of
// the files DIRECTORY/fpm.conf.1, .2, ...

const CLIENTS = 8;
[, $port, $directory, $server, $visitors] = $argv;

function fail(string $why): never
{
    fwrite(STDERR, "failed: $why\n");
    exit(1);
}

/** A page that counts: [what it says, its cookie]. */
function visit(?string $cookie): array
{
    global $port;
    $options = ['header' => $cookie === null ? '' : "Cookie: $cookie\r\n", 'timeout' => 30];
    $body = @file_get_contents("http://127.0.0.1:$port/page.php?do=count", false,
        stream_context_create(['http' => $options]));
    $body !== false || fail('a request got no answer');
    $set = preg_grep('/^Set-Cookie: PHPSESSID=/i', $http_response_header);
    return [$body, $set ? preg_replace('/^[^:]*: ([^;]*).*/', '$1', end($set)) : null];
}

/** Visits until PHASES passes over all visitors are done; a line on $out after each. */
function client(int $visitors, int $phases, $out): void
{
    global $directory;
    $known = [];
    for ($number = 0; $number < $visitors; $number++) {
        [$body, $cookie] = visit(null);
        $body === '1' && $cookie !== null || fail("a log-in counts $body");
        $known[] = [$cookie, 1];
    }
    $again = function (int $number) use (&$known): void {
        [$cookie, $count] = $known[$number];
        [$body, $new] = visit($cookie);
        $new === null || fail('a visitor was logged out');
        $body === (string) ++$count || fail("a cart has $body in place of $count");
        $known[$number][1] = $count;
    };
    $requests = $visitors;
    for ($phase = 0; $phase <= $phases; $phase++) {
        fwrite($out, "$requests\n");
        while ($phase < $phases && !file_exists("$directory/phase.$phase")) {
            $again(random_int(0, $visitors - 1));
            $requests++;
        }
        for ($number = 0; $phase < $phases && $number < $visitors; $number++) {
            $again($number);
            $requests++;
        }
    }
}

$phases = count(glob("$directory/fpm.conf.*"));
$pipes = [];
for ($number = 0; $number < CLIENTS; $number++) {
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    if (pcntl_fork() === 0) {
        fclose($pair[1]);
        client(intdiv($visitors, CLIENTS), $phases, $pair[0]);
        exit(0);
    }
    fclose($pair[0]);
    stream_set_timeout($pair[1], 600);
    $pipes[] = $pair[1];
}
$start = microtime(true);
for ($phase = 0; $phase <= $phases; $phase++) {
    $requests = 0;
    foreach ($pipes as $pipe) {
        $line = fgets($pipe);
        $line !== false || fail("a client ended in phase $phase");
        $requests += (int) $line;
    }
    if ($phase < $phases) {
        rename("$directory/fpm.conf." . $phase + 1, "$directory/fpm.conf");
        exec("kill -USR2 $server", $output, $code);
        $code === 0 || fail('php-fpm has ended');
        sleep(2);
        touch("$directory/phase.$phase");
    }
}
while (pcntl_wait($status) > 0);
$seconds = microtime(true) - $start;
printf("%d visitors, %d requests, %.0f a second, %d changes of the store: nobody logged out\n",
    intdiv($visitors, CLIENTS) * CLIENTS, $requests, $requests / $seconds, $phases);
