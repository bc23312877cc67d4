<?php
// The effect of garbage collection on session_start(). scripts/php_bench.sh calls it and stops the
// Redis server whose socket is in SHM.
//
//   php gc.php --sessile MODULE --floor MODULE --program COMMAND --shm DIRECTORY --disk DIRECTORY
//   [--sessions 550000] [--starts 20000] [--rounds 4] [--seconds 60] [--lifetime 3000] [--sync 1]
//   [--seed 1] [--phases starts,deletion,requests] [--json FILE] [HANDLER...]
//
// Three phases over all handlers. Results are printed and saved after each.
//
// * Starts: session_start() and session_write_close() without change, at random ids, with
//   session.gc_probability 1 of 10 and 0, in turns over several rounds. --starts and --seconds
//   limit a row. After each turn with collection, idle calls of its median length show the
//   machine's part of the tail.
// * Deletion: nine of ten sessions expire and are removed at once, while another process starts the
//   rest at a fixed rate.
// * Deletion by requests: nine of ten sessions of a new store expire, and starts with gc 1/10
//   remove them.
require __DIR__ . '/handlers.php';
require __DIR__ . '/peer.php';
require __DIR__ . '/sessions.php';
require __DIR__ . '/histogram.php';
require __DIR__ . '/gc_contender.php';
require __DIR__ . '/gc_phases.php';
require __DIR__ . '/gc_report.php';
require __DIR__ . '/gc_result.php';

$options = ['sessile', 'floor', 'program', 'shm', 'disk', 'sessions', 'starts', 'rounds', 'seconds',
    'lifetime', 'sync', 'seed', 'phases', 'json'];
$given = getopt('', array_map(fn($name) => "$name:", $options), $rest);
$parts_of_names = array_slice($argv, $rest);
$command = command_line($given, $parts_of_names);
$given += ['sessions' => 550_000, 'starts' => 20_000, 'rounds' => 4, 'seconds' => 60,
    'lifetime' => 3_000, 'sync' => 1, 'seed' => 1, 'phases' => 'starts,deletion,requests',
    'json' => null];
$chosen = explode(',', $given['phases']);
if ($unknown = array_diff($chosen, ['starts', 'deletion', 'requests'])) {
    fwrite(STDERR, 'unknown phase ' . implode(', ', $unknown)
        . "; the phases are starts, deletion, requests\n");
    exit(2);
}
$at = new Places($given['sessile'], $given['floor'], $given['shm'], $given['disk'],
    "$given[shm]/redis");
$sessions = (int) $given['sessions'];
$at->demand_room($sessions, 4);
say_what_is_left_out(['redis' => 'phpredis']);
$contenders = contenders($at, $sessions, (int) $given['lifetime'], (int) $given['seed'],
    $parts_of_names);
mt_srand((int) $given['seed']);

$phases = new Phases($contenders, $at, (int) $given['starts'], (int) $given['rounds'],
    (float) $given['seconds'], (bool) $given['sync']);
$around = $given['json'] === null ? null
    : new Surroundings($given, $command, left_out($at, $contenders, $parts_of_names),
        programs($at, $contenders, $sessions));
$save = function () use ($given, $contenders, $sessions, $at, $around): void {
    if ($around !== null) {
        $result = $around->with(rows($contenders, $sessions, $at));
        file_put_contents("$given[json].new",
            json_encode($result, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES) . "\n");
        rename("$given[json].new", $given['json']);
    }
};
printf("\nPHP %s, %s sessions of 1,400 bytes;"
    . " session_start() and session_write_close() without change\n",
    PHP_VERSION, number_format($sessions));
if (in_array('starts', $chosen, true)) {
    $phases->starts();
    $save();
    echo starts_tables($contenders),
        histograms($contenders, [GC_ON, GC_OFF, SWEPT_BESIDE, NOTHING]);
}
foreach (in_array('deletion', $chosen, true) ? $contenders : [] as $contender) {
    if ($contender->remover !== Remover::Nobody) {
        $phases->deletion($contender);
        $save();
    }
}
echo deletion_table($contenders);
foreach (in_array('requests', $chosen, true) ? $contenders : [] as $contender) {
    if ($contender->remover === Remover::Handler) {
        $phases->deletion_by_requests($contender);
        $save();
    }
}
echo requests_table($contenders), histograms($contenders, [DELETED_BY_REQUESTS]),
    complaints($contenders);
$bad = array_filter($contenders, fn(Contender $contender) => complaint($contender) !== null);
exit($bad ? 1 : 0);
