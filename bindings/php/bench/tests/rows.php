<?php
// Checks the result of gc.php with 300 sessions and 200 starts a row: php rows.php JSON OUTPUT
[, $json, $output] = $argv;
$failures = [];
$expect = function (bool $right, string $what) use (&$failures): void {
    if (!$right) {
        $failures[] = $what;
    }
};

$rows = [];
$result = json_decode(file_get_contents($json), true);
foreach ($result['results'] as $row) {
    $rows["$row[store]#$row[variant] $row[op]"] = $row;
}
$with_gc = ['floor#default', 'php-files#disk', 'sessile#disk', 'redis#default'];
$expected = ['php-files#disk-swept start-while-sweeping'];
foreach ($with_gc as $handler) {
    array_push($expected, "$handler start-gc-0.1", "$handler start-gc-0", "$handler nothing");
}
foreach (['php-files#disk', 'sessile#disk'] as $handler) {
    $expect(($rows["$handler start-gc-0.1-expired"]['operations'] ?? 0) > 0,
        "$handler: starts after the expiry expected");
}
if (!isset($rows['redis#default start-gc-0'])) {
    echo "skipped: garbage collection on redis (redis-server is not installed)\n";
    $expect($result['left_out'][0]['store'] === 'redis', 'redis is not among what was left out');
    $expected = array_filter($expected, fn(string $name) => !str_starts_with($name, 'redis'));
}
foreach ($expected as $name) {
    $expect(($rows[$name]['operations'] ?? 0) === 200, "$name: 200 starts expected");
}
foreach ($with_gc as $handler) {
    $nothing = $rows["$handler nothing"] ?? null;
    // Each turn has its own median, which no idle call undercuts.
    $expect($nothing === null
        || $nothing['latency_us']['p50'] > $rows["$handler start-gc-0.1"]['latency_us']['p50'] / 2,
        "$handler: calls that do nothing are shorter than starts");
}
$deletions = array_filter($rows, fn(string $name) => str_ends_with($name, ' start-while-deleting'),
    ARRAY_FILTER_USE_KEY);
$expect(count($deletions) === (isset($rows['redis#default start-gc-0']) ? 4 : 3),
    'deletions expected of all but the floor, found ' . count($deletions));
foreach ($deletions as $name => $row) {
    $removed = $row['removal']['removed'];
    // Starts also remove sessions from an engine; a server leaves a few.
    $least = match ($row['store']) { 'sessile' => 1, 'redis' => 257, default => 270 };
    $expect($removed >= $least && $removed <= 270,
        "$name: $least to 270 removed expected, found $removed");
}
foreach ($rows as $name => $row) {
    $us = $row['latency_us'];
    $sorted = array_values($us);
    sort($sorted);
    $expect($row['operations'] === 0 || $us['min'] > 0 && $sorted === array_values($us),
        "$name: quantiles do not ascend");
    foreach ([$row['histogram']['counts'], $row['php']['calls']['counts'],
        array_column($row['php']['groups'], 'calls')] as $counts) {
        $expect(array_sum($counts) === $row['operations'],
            "$name: calls are missing in a histogram");
    }
    $expect(isset($row['modes']) === str_contains($name, 'start-gc-0.1'),
        "$name: modes are told of starts that collect, and of no others");
    $expect($row['misses'] === 0 && $row['errors'] === 0 && $row['failed'] === null,
        "$name: $row[misses] misses, $row[errors] errors, $row[failed]");
}
$expect($result['command'] === 'sh scripts/php.sh gc-bench --sessions 300 --starts 200 --rounds 2'
    . ' --seconds 2 --sync 0 --json rows floor '
    . "'files (disk' 'sessile (engine, disk' 'sessile (redis'",
    "the command is not the one that was called: $result[command]");
$expect($result['environment']['versions']['php'] === PHP_VERSION, 'the version of PHP expected');
$expect(!preg_match('#/(dev|var|tmp|home|root)/#', file_get_contents($json)),
    'the result names a place');
$text = file_get_contents($output);
foreach (['all starts', 'the first 1,000', 'removed in', '9 of 10 expired', '#'] as $part) {
    $expect(str_contains($text, $part), "the output lacks '$part'");
}
foreach ($failures as $failure) {
    echo "failed: $failure\n";
}
exit($failures ? 1 : 0);
