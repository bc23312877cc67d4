<?php
// The cost of the loaded extension: time to start, private memory, page tables.
//
//   php footprint.php MODULE-OF-SESSILE SHM [STARTS]
//
// Starts: an empty script with and without the extension, in turns. Memory: an idle process that
// has opened, changed and saved one session, next to one with PHP's own files. Source: smaps_rollup
// and status in /proc.
[, $sessile, $shm] = $argv;
$starts = (int) ($argv[3] ?? 101);

function median(array $values): float
{
    sort($values);
    return $values[intdiv(count($values), 2)];
}

function start_ms(array $options): float
{
    $begin = hrtime(true);
    $process = proc_open([PHP_BINARY, '-n', ...$options, '-r', ''], [], $pipes);
    $code = proc_close($process);
    if ($code !== 0) {
        fwrite(STDERR, "php ended with $code\n");
        exit(1);
    }
    return (hrtime(true) - $begin) / 1e6;
}

/** Memory of an idle process that has saved a session, in kB by name. */
function memory(array $settings): array
{
    $command = [PHP_BINARY, '-n'];
    $settings += ['session.use_cookies' => 0, 'session.cache_limiter' => ''];
    foreach ($settings as $key => $value) {
        array_push($command, '-d', "$key=\"$value\"");
    }
    $script = 'session_start(); $_SESSION["text"] = str_repeat("x", 1400);'
        . ' if (!session_write_close()) exit(1); echo "idle\n"; fgets(STDIN);';
    $process = proc_open([...$command, '-r', $script], [['pipe', 'r'], ['pipe', 'w']], $pipes);
    if (fgets($pipes[1]) !== "idle\n") {
        fwrite(STDERR, "no session could be saved\n");
        exit(1);
    }
    $place = '/proc/' . proc_get_status($process)['pid'];
    $text = file_get_contents("$place/smaps_rollup") . file_get_contents("$place/status");
    preg_match_all('/^(Rss|Pss|Private_Dirty|VmPTE):\s+(\d+) kB/m', $text, $found);
    fclose($pipes[0]);
    proc_close($process);
    return array_combine($found[1], array_map('intval', $found[2]));
}

$with = ["-d", "extension=$sessile"];
$times = ['without' => [], 'with' => []];
start_ms($with); // warms the page cache
for ($i = 0; $i < $starts; $i++) {
    $times['without'][] = start_ms([]);
    $times['with'][] = start_ms($with);
}
$differences = array_map(fn($with, $without) => $with - $without, $times['with'],
    $times['without']);
printf("start of a process, ms, medians of %d: %.2f without the extension, %.2f with it,"
    . " difference %.2f\n",
    $starts, median($times['without']), median($times['with']), median($differences));

@mkdir("$shm/footprint");
$rows = [
    'files' => ['session.save_handler' => 'files', 'session.save_path' => "$shm/footprint"],
    'sessile (engine)' => ['extension' => $sessile, 'session.save_handler' => 'sessile',
        'session.save_path' => "sessile:$shm/footprint/engine"],
    'sessile (files)' => ['extension' => $sessile, 'session.save_handler' => 'sessile',
        'session.save_path' => "files:$shm/footprint/own"],
];
printf("%-20s %10s %10s %15s %8s\n", 'idle process, kB', 'Rss', 'Pss', 'Private_Dirty', 'VmPTE');
foreach ($rows as $name => $settings) {
    $kb = memory($settings);
    printf("%-20s %10d %10d %15d %8d\n", $name, $kb['Rss'], $kb['Pss'], $kb['Private_Dirty'],
        $kb['VmPTE']);
}
