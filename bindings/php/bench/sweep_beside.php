<?php
// The sweep process that the PHP manual and distributions advise for PHP's files. Verbs by line, as
// in worker.php: `begin` sweeps until the next line, `once` sweeps once. php sweep_beside.php
// DIRECTORY LIFETIME
[, $directory, $lifetime] = $argv;

/** Sweeps as Debian's timer does, and returns the number of removed files. */
function sweep(string $directory, int $lifetime): int
{
    $command = ['find', $directory, '-ignore_readdir_race', '-type', 'f', '-name', 'sess_*',
        '-mmin', '+' . (int) ceil($lifetime / 60),
        '-delete', '-printf', 'x'];
    $find = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w']], $pipes);
    $removed = 0;
    while (($some = fread($pipes[1], 65536)) !== false && $some !== '') {
        $removed += strlen($some);
    }
    if (proc_close($find) !== 0) {
        fwrite(STDERR, "the sweep beside has failed\n");
        exit(1);
    }
    return $removed;
}

function cpu_seconds(): float
{
    $used = getrusage(1); // of ended children
    return $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']
        + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1e6;
}

while (($line = fgets(STDIN)) !== false) {
    $begin = hrtime(true);
    $cpu = cpu_seconds();
    $passes = 0;
    $removed = 0;
    do {
        $removed += sweep($directory, (int) $lifetime);
        $passes++;
        $read = [STDIN];
        $none = null;
    } while (trim($line) === 'begin' && !stream_select($read, $none, $none, 0));
    if (trim($line) === 'begin') {
        fgets(STDIN);
    }
    fwrite(STDOUT, json_encode(
        ['passes' => $passes, 'removed' => $removed, 'seconds' => (hrtime(true) - $begin) / 1e9,
        'cpu_seconds' => cpu_seconds() - $cpu]) . "\n");
}
