<?php
// One handler in one process. Each line of standard input is a verb with arguments and gets a line
// of JSON; the verbs are at the end. php worker.php SESSIONS SEED [apcu]
require __DIR__ . '/sessions.php';
require __DIR__ . '/starts.php';
require __DIR__ . '/expiry.php';
[, $sessions, $seed] = $argv;
if (($argv[3] ?? '') === 'apcu') {
    require __DIR__ . '/../../../bench/contenders/php/handlers/apcu.php';
}

function change(string $id): void
{
    start($id);
    $_SESSION['n'] = $_SESSION['n'] + 1;
    session_write_close();
}

function change_for(array $ids, float $seconds): array
{
    $last = count($ids) - 1;
    $cycles = 0;
    $begin = hrtime(true);
    $end = $begin + (int) ($seconds * 1e9);
    do {
        for ($i = 0; $i < 128; $i++) {
            change($ids[mt_rand(0, $last)]); // the random draw costs some 0.03 us in every row
        }
        $cycles += 128;
        $now = hrtime(true);
    } while ($now < $end);
    return ['cycles' => $cycles, 'us' => ($now - $begin) / 1e3 / $cycles];
}

function sum(array $ids): array
{
    $sum = 0;
    foreach ($ids as $i => $id) {
        start($id, ['read_and_close' => true]);
        $sum += is_whole($i) ? $_SESSION['n'] : 0;
    }
    return ['sum' => $sum];
}

$ids = ids((int) $sessions, (int) $seed);
$lifetime = (int) ini_get('session.gc_maxlifetime');
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    $answer = match ($words[0]) {
        // Changes in a loop: SECONDS.
        'run' => change_for($ids, (float) $words[1]),
        'sum' => sum($ids),
        // Starts without change: MOST SECONDS GC-PROBABILITY EACH, where EACH is 1, or SURVIVOR for
        // surviving sessions only.
        'starts' => starts($ids, (int) $words[1], (float) $words[2], (int) $words[3],
            (int) $words[4]),
        // Idle calls: MOST SECONDS NANOSECONDS.
        'nothing' => nothing((int) $words[1], (float) $words[2], (int) $words[3]),
        // Starts at a fixed rate until the next line: STARTS-A-SECOND EACH.
        'paced' => paced_starts($ids, (int) $words[1], (int) $words[2]),
        // Sessions that mostly expire at one moment, which is returned, at least SECONDS after the
        // last one is stored.
        'fill-expiring' => fill_expiring($ids, $lifetime, (int) $words[1]),
        'collect' => collect(),
        'survivors' => survivors($ids),
        'fill' => fill($ids),
    };
    fwrite(STDOUT, json_encode($answer) . "\n");
}
