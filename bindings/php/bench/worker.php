<?php
// One handler in one process. Asked through standard input, a verb and its arguments a line, it answers with a line of
// JSON; see the verbs at the end. php worker.php SESSIONS SEED [apcu]
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

/** Changes one value of a random session, again and again. */
function change_for(array $ids, float $seconds): array
{
    $last = count($ids) - 1;
    $cycles = 0;
    $begin = hrtime(true);
    $end = $begin + (int) ($seconds * 1e9);
    do {
        for ($i = 0; $i < 128; $i++) {
            change($ids[mt_rand(0, $last)]); // any of them: the draw costs some 0.03 us in every row
        }
        $cycles += 128;
        $now = hrtime(true);
    } while ($now < $end);
    return ['cycles' => $cycles, 'us' => ($now - $begin) / 1e3 / $cycles];
}

/** How many changes are found. */
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
        // The change in a loop: SECONDS.
        'run' => change_for($ids, (float) $words[1]),
        'sum' => sum($ids),
        // Starts without change: MOST SECONDS GC-PROBABILITY EACH, where EACH is 1, or SURVIVOR for those that live on.
        'starts' => starts($ids, (int) $words[1], (float) $words[2], (int) $words[3], (int) $words[4]),
        // Calls of so many nanoseconds that do nothing: MOST SECONDS NANOSECONDS.
        'nothing' => nothing((int) $words[1], (float) $words[2], (int) $words[3]),
        // Starts at a fixed rate until the next line: STARTS-A-SECOND EACH.
        'paced' => paced_starts($ids, (int) $words[1], (int) $words[2]),
        // With sessions most of which expire at one moment, which is told: SECONDS after all are there, or later.
        'fill-expiring' => fill_expiring($ids, $lifetime, (int) $words[1]),
        'collect' => collect(),
        'survivors' => survivors($ids),
        'fill' => fill($ids),
    };
    fwrite(STDOUT, json_encode($answer) . "\n");
}
