<?php
// Visitors come back again and again while the site changes its store:
// php load.php PORT DIRECTORY PID VISITORS [RATE]. PID is that of php-fpm, which is reloaded with
// each of the files DIRECTORY/fpm.conf.1, .2, ... A check DIRECTORY/after.1, ... is run when all
// visitors have come back after that reload.
//
// With a rate, in requests a second, there is a reload before that changes nothing, and a table
// tells how long requests waited from the moment at which they were due: clients that wait for the
// answer before would spare a site that stands still.

const CLIENTS = 8;
const RELOAD_S = 2;
const NS_PER_S = 1_000_000_000;
[, $port, $directory, $server, $visitors] = $argv;
$rate = (float) ($argv[5] ?? 0);

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

/** Some of the visitors, with their cookies and what they know to be in their carts. */
final class Client
{
    private array $known = [];
    private int $requests = 0;
    private int $logged_out = 0;
    private int $changed = 0;
    /** Milliseconds of each request since the last report, while php-fpm reloads and after it. */
    private array $waited = ['reload' => [], 'after' => []];
    private int $due = 0;

    function __construct(private int $visitors, private float $rate, private $out)
    {
    }

    function log_in(): void
    {
        for ($number = 0; $number < $this->visitors; $number++) {
            [$body, $cookie] = visit(null);
            $body === '1' && $cookie !== null || fail("a log-in counts $body");
            $this->known[] = [$cookie, 1];
        }
        $this->requests += $this->visitors;
    }

    /** All visitors come back, or any of them until the file exists. */
    function come_back(?string $until = null): void
    {
        $this->due = hrtime(true);
        for ($number = 0; $until ? !file_exists($until) : $number < $this->visitors; $number++) {
            $this->wait();
            $this->again($until ? random_int(0, $this->visitors - 1) : $number);
            $when = $until ? 'reload' : 'after';
            $this->waited[$when][] = (hrtime(true) - $this->due) / 1e6;
        }
    }

    private function wait(): void
    {
        if ($this->rate <= 0) {
            $this->due = hrtime(true);
            return;
        }
        $this->due += (int) (NS_PER_S / $this->rate);
        $early = $this->due - hrtime(true);
        if ($early > 0) {
            time_nanosleep(intdiv($early, NS_PER_S), $early % NS_PER_S);
        }
    }

    private function again(int $number): void
    {
        [$cookie, $count] = $this->known[$number];
        [$body, $new] = visit($cookie);
        $this->logged_out += $new !== null;
        $this->changed += $new === null && $body !== (string) ($count + 1);
        $this->known[$number] = [$new ?? $cookie, (int) $body];
        $this->requests++;
    }

    function report(): void
    {
        fwrite($this->out, json_encode(['requests' => $this->requests, 'waited' => $this->waited,
            'logged_out' => $this->logged_out, 'changed' => $this->changed]) . "\n");
        $this->waited = ['reload' => [], 'after' => []];
    }
}

/** The clients' reports as one; times are those since the report before. */
function collect(array $pipes): array
{
    $sum = ['requests' => 0, 'logged_out' => 0, 'changed' => 0,
        'waited' => ['reload' => [], 'after' => []]];
    foreach ($pipes as $pipe) {
        $line = fgets($pipe);
        $line !== false || fail('a client has ended');
        $report = json_decode($line, true);
        foreach (['requests', 'logged_out', 'changed'] as $name) {
            $sum[$name] += $report[$name];
        }
        $sum['waited'] = array_merge_recursive($sum['waited'], $report['waited']);
    }
    return $sum;
}

function percentile(array $times, float $part): float
{
    sort($times);
    return $times[max(0, (int) ceil(count($times) * $part) - 1)] ?? NAN;
}

function row(string $where, array $waited): string
{
    $all = array_merge($waited['reload'], $waited['after']);
    return sprintf("%8d %7.1f %7.1f %8.1f %8.1f  %s\n", count($all), percentile($all, 0.5),
        percentile($waited['after'], 0.99), percentile($all, 0.99), max($all), $where);
}

/** The handler and the store of php-fpm's configuration. */
function store_of(string $file): string
{
    global $directory;
    preg_match_all('/^php_admin_value\[session\.save_(?:handler|path)\] = (.*)/m',
        file_get_contents($file), $found);
    return str_replace([$directory, '"'], '', implode(' ', $found[1]));
}

// Step 0 is a reload that changes nothing.
$steps = range($rate > 0 ? 0 : 1, count(glob("$directory/fpm.conf.*")));
$pipes = [];
for ($number = 0; $number < CLIENTS; $number++) {
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    if (pcntl_fork() === 0) {
        fclose($pair[1]);
        $client = new Client(intdiv($visitors, CLIENTS), $rate / CLIENTS, $pair[0]);
        $client->log_in();
        $client->report();
        foreach ($steps as $step) {
            $client->come_back("$directory/step.$step");
            $client->come_back();
            $client->report();
        }
        exit(0);
    }
    fclose($pair[0]);
    stream_set_timeout($pair[1], 1_800);
    $pipes[] = $pair[1];
}
$start = microtime(true);
collect($pipes);
$table = '';
foreach ($steps as $step) {
    $step === 0 || rename("$directory/fpm.conf.$step", "$directory/fpm.conf");
    exec("kill -USR2 $server", $output, $code);
    $code === 0 || fail('php-fpm has ended');
    sleep(RELOAD_S);
    touch("$directory/step.$step");
    $sum = collect($pipes);
    $table .= row(store_of("$directory/fpm.conf"), $sum['waited']);
    if (is_file("$directory/after.$step")) {
        passthru("sh $directory/after.$step", $code);
        $code === 0 || fail("the check after step $step");
    }
}
while (pcntl_wait($status) > 0);
$seconds = microtime(true) - $start;
printf("%d visitors, %d requests, %.0f a second, %d changes of the store: %d logged out, " .
    "%d carts changed\n", intdiv($visitors, CLIENTS) * CLIENTS, $sum['requests'],
    $sum['requests'] / $seconds, end($steps), $sum['logged_out'], $sum['changed']);
if ($rate > 0) {
    printf("%8s %7s %7s %8s %8s\n%8s %7s %7s %8s %8s  (ms)\n%s", 'requests', 'p50', 'p99',
        'p99 with', 'longest', '', '', '', 'reload', '', $table);
}
exit($sum['logged_out'] + $sum['changed'] > 0 ? 1 : 0);
