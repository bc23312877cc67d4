<?php
// Tests the result of synthetic calls and paths: php result.php
require __DIR__ . '/../handlers.php';
require __DIR__ . '/../histogram.php';
require __DIR__ . '/../gc_contender.php';
require __DIR__ . '/../gc_phases.php';
require __DIR__ . '/../gc_result.php';

$failed = 0;
$equal = function (string $what, mixed $found, mixed $expected) use (&$failed): void {
    if ($found !== $expected) {
        echo "failed: $what: ", json_encode($found), ' in place of ', json_encode($expected), "\n";
        $failed++;
    }
};

// A bound belongs to the bin above it.
$counts = counts([1, 999, 1_000, 1_999, 2_000, 9_999_999_999, 10_000_000_000]);
$equal('counts', [count($counts), array_filter($counts)], [23, [2, 2, 1, 21 => 1, 22 => 1]]);

$row = new Measured();
$row->ns = [...array_fill(0, 90, 12_000), ...array_fill(0, 25, 1_000_000),
    ...array_fill(0, 5, 1_100_000)];
$equal('two modes', modes($row),
    ['plain_p50' => 12.0, 'sweeping_p50' => 1000.0, 'sweeping' => 30, 'sweeping_p90' => 1100.0,
    'modes' => 2]);
$row = new Measured();
$row->ns = array_fill(0, 90, 12_000);
$equal('one mode', modes($row),
    ['plain_p50' => 12.0, 'sweeping_p50' => 0.0, 'sweeping' => 0, 'sweeping_p90' => 0.0,
    'modes' => 1]);
$equal('rates', spread([3.0, 1.0, 2.0, 8.0]), ['median' => 2.5, 'low' => 1.0, 'high' => 8.0]);

$at = new Places('', '', '/dev/shm/s-1', '/var/tmp/d-1', '/dev/shm/s-1/redis');
$shown = fn(string $path) =>
    url(new Handler('', '', '', '', [], ['session.save_path' => $path]), $at);
$equal('a place of a phase',
    $shown('sessile:/var/tmp/d-1/starts/engine?control=/dev/shm/s-1/starts'),
    'sessile:<disk>/engine?control=<shm>');
$equal('a socket', $shown('unix:///dev/shm/s-1/redis?prefix=b:'), 'unix://<shm>/redis?prefix=b:');
$given = ['sessile' => '/secret/a.so', 'floor' => '/secret/b.so', 'program' => '/secret/p',
    'shm' => '/s', 'disk' => '/d', 'starts' => '5', 'json' => '/secret/x.json'];
$equal('a command', command_line($given, ['floor', 'files (disk']),
    "sh scripts/php.sh gc-bench --starts 5 --json x.json floor 'files (disk'");
exit($failed ? 1 : 0);
