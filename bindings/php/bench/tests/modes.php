<?php
// Tests the rule of modes on synthetic latencies: php modes.php
require __DIR__ . '/../histogram.php';

mt_srand(1);
/** Log-normal latencies: median in microseconds, spread as a factor. */
function around(float $us, int $calls, float $factor = 1.2): array
{
    $normal = fn(): float => sqrt(-2 * log((mt_rand() + 1) / (mt_getrandmax() + 2)))
        * cos(2 * M_PI * mt_rand() / mt_getrandmax());
    return array_map(fn() => (int) ($us * 1e3 * $factor ** $normal()), array_fill(0, $calls, null));
}

$cases = [
    'nothing was called' => [0, []],
    'one call' => [1, [4_000]],
    'all alike' => [1, array_fill(0, 1_000, 4_000)],
    'one population' => [1, around(4, 20_000)],
    'a wide one' => [1, around(4, 20_000, 2)],
    'the source: a tenth collects' => [2, [...around(5, 900), ...around(600e3, 100)]],
    'a tenth takes five times as long' => [2, [...around(4, 18_000), ...around(20, 2_000)]],
    'a fiftieth does' => [2, [...around(4, 19_600), ...around(40, 400)]],
    'a tenth takes twice as long: a shoulder' => [1, [...around(4, 18_000), ...around(8, 2_000)]],
    'one of two hundred is slow: outliers' => [1, [...around(4, 19_900), ...around(400, 100)]],
    'one of fifty is slow, but these are ten calls' => [1, [...around(4, 490), ...around(400, 10)]],
    'a tail without a gap' =>
        [1, array_map(fn($i) => (int) (4_000 / (1 - $i / 20_000) ** 0.5), range(0, 19_999))],
    'two, and some calls everywhere between' => [2, [...around(4, 18_000), ...around(400, 1_900),
        ...array_map(fn($i) => 4_000 * 1.05 ** $i, range(0, 90))]],
    'three' => [3, [...around(4, 10_000), ...around(40, 5_000), ...around(4_000, 5_000)]],
];
$failed = 0;
foreach ($cases as $name => [$expected, $ns]) {
    $modes = (new Histogram(array_map(intval(...), $ns)))->modes();
    $right = count($modes) === $expected && array_sum(array_column($modes, 'calls')) === count($ns);
    $failed += $right ? 0 : 1;
    echo $right ? '' : "failed: $name: $expected expected, found " . modes_text($modes) . "\n";
}

$us = latency_us(range(1_000, 1_000_000, 1_000));
if ($us !== ['min' => 1.0, 'p50' => 500.0, 'p90' => 900.0, 'p99' => 990.0, 'p999' => 999.0,
    'max' => 1000.0]) {
    echo 'failed: quantiles are wrong: ', json_encode($us), "\n";
    $failed++;
}
$drawing = draw(['one' => new Histogram(array_fill(0, 900, 4_000)),
    'two' => new Histogram([...array_fill(0, 900, 4_000), 600_000_000])]);
$lines = explode("\n", trim($drawing));
if (count($lines) !== 4 || trim($lines[2]) !== ':' || !preg_match('/501 ms +1 \.$/', $lines[3])) {
    echo "failed: the drawing is wrong:\n$drawing";
    $failed++;
}
exit($failed ? 1 : 0);
