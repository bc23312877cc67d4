<?php
// Compares save handlers. scripts/php_bench.sh calls it and stops the Redis server whose socket is
// in SHM.
//
//   php bench.php MODULE-OF-SESSILE MODULE-OF-THE-FLOOR SHM DISK SESSIONS ROUNDS SECONDS
//   [HANDLER...]
//
// Each handler has a process. The processes take turns in random order over several rounds. Every
// change is counted and verified at the end. The tables give microseconds for one session_start(),
// a change and session_write_close().
require __DIR__ . '/handlers.php';
require __DIR__ . '/peer.php';
[, $sessile, $floor, $shm, $disk, $sessions, $rounds, $seconds] = $argv;
$places = new Places($sessile, $floor, $shm, $disk, "$shm/redis");
$places->demand_room((int) $sessions, 3);
say_what_is_left_out(['apcu' => 'APCu', 'redis' => 'phpredis']);
$handlers = wanted(handlers($places, (int) $sessions), array_slice($argv, 8));

const LIFETIME = 14400;
$workers = [];
$us = array_fill_keys(array_keys($handlers), []);
$cycles = array_fill_keys(array_keys($handlers), 0);
foreach ($handlers as $name => $handler) {
    fwrite(STDERR, "fill in $sessions sessions: $name\n");
    $workers[$name] = new Peer($name, $handler->command((int) $sessions, LIFETIME));
    $workers[$name]->ask('fill');
}
for ($round = 1; $round <= $rounds; $round++) {
    fwrite(STDERR, "round $round of $rounds\n");
    $order = array_keys($workers);
    shuffle($order);
    foreach ($order as $name) {
        $answer = $workers[$name]->ask("run $seconds");
        $us[$name][] = $answer['us'];
        $cycles[$name] += $answer['cycles'];
    }
}
$median = function (array $values): float {
    sort($values);
    return $values[intdiv(count($values), 2)];
};
$floor_us = isset($us[FLOOR]) ? $median($us[FLOOR]) : null;
printf("\nPHP %s, %s sessions, %s rounds of %s s\n", PHP_VERSION, $sessions, $rounds, $seconds);
printf("%-34s %10s %18s %10s\n", 'handler', 'us', 'low..high', 'x floor');
$failed = 0;
foreach ($workers as $name => $worker) {
    $sum = $worker->ask('sum')['sum'];
    $times = $floor_us === null ? '' : sprintf('%.2f', $median($us[$name]) / $floor_us);
    $range = sprintf('%.2f..%.2f', min($us[$name]), max($us[$name]));
    $verdict = $sum === $cycles[$name] ? '' : "  FAILED: $cycles[$name] changes made, $sum found";
    $failed += $verdict !== '';
    printf("%-34s %10.2f %18s %10s%s\n", $name, $median($us[$name]), $range, $times, $verdict);
    $worker->end();
}
exit($failed ? 1 : 0);
