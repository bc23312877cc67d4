<?php
// Times source B (bench/SOURCES.md): session_start() and session_write_close() while one start in
// ten collects garbage, and while none does; then session_gc() on sessions of which nine of ten
// have expired. PHP's own files on a disk, and ours.
//
//   php collector.php [--json] [ROUNDS] [CALLS] [SESSIONS]
//
// Starts are timed among 1,000 sessions and among SESSIONS (SESSILE_BENCH_SESSIONS, or 20,000;
// the source has 550,000). A row ends early after SESSIONS / 10,000 seconds, at least 3. What is
// read is compared, survivors must be whole, and expired sessions gone. With --json each row is a
// line: `row`, `op`, `us` of a call in each round, `latency_us` of all calls, `sessions`, and the
// calls that were `checked`; or `row` with what is `missing`, or `wrong`.
require __DIR__ . '/runtime.php';
load_extensions();
[$as_json, $rounds, $calls, $sessions] =
    arguments(5, 2_000, (int) (getenv('SESSILE_BENCH_SESSIONS') ?: 20_000));
$shm = place('SESSILE_BENCH_DIR', '/dev/shm');
$disk = place('SESSILE_BENCH_DISK', '/var/tmp');

const FEW = 1_000;
// One of this many sessions survives.
const SURVIVOR = 10;
const FILE_BYTES = 4_096;
const GC = ['start-gc-0.1' => 1, 'start-gc-0' => 0];

/** Starts sessions in random order; nanoseconds of each, and how many were not whole. */
function starts(array $ids, int $calls, int $until): array
{
    $last = count($ids) - 1;
    [$ns, $broken] = [[], 0];
    for ($end = 0; count($ns) < $calls && $end < $until;) {
        $i = mt_rand(0, $last);
        $begin = hrtime(true);
        start($ids[$i]);
        session_write_close();
        $end = hrtime(true);
        $ns[] = $end - $begin;
        $broken += is_whole($i) ? 0 : 1;
    }
    return [$ns, $broken];
}

function latency(array $ns): array
{
    sort($ns);
    $at = fn(float $part) => $ns[(int) ceil($part * count($ns)) - 1] / 1e3;
    return ['min' => $ns[0] / 1e3, 'p50' => $at(0.5), 'p90' => $at(0.9), 'p99' => $at(0.99),
        'p999' => $at(0.999), 'max' => end($ns) / 1e3];
}

/** The rows of starts with and without collection, in turns. */
function start_rows(string $name, array $ids, int $rounds, int $calls, float $seconds): array
{
    $ns = $us = $broken = array_fill_keys(array_keys(GC), []);
    for ($round = 0; $round < $rounds; $round++) {
        foreach (GC as $op => $probability) {
            ini_set('session.gc_probability', $probability);
            $until = hrtime(true) + (int) ($seconds * 1e9 / $rounds);
            [$took, $broken[$op][]] = starts($ids, $calls, $until);
            $us[$op][] = array_sum($took) / count($took) / 1e3;
            array_push($ns[$op], ...$took);
        }
    }
    ini_set('session.gc_probability', 0);
    return array_map(function (string $op) use ($name, $ids, $ns, $us, $broken) {
        $wrong = array_sum($broken[$op]);
        return ['row' => $name, 'op' => $op, 'us' => $us[$op], 'latency_us' => latency($ns[$op]),
            'sessions' => count($ids), 'checked' => count($ns[$op])]
            + ($wrong ? ['wrong' => "$wrong sessions were not what was written"] : []);
    }, array_keys(GC));
}

/** The row of session_gc() on sessions of which nine of ten have expired. */
function collect_row(string $name, array $ids): array
{
    // Long enough that nothing expires before the last one is there.
    $lifetime = 2 + intdiv(count($ids), 20_000);
    $directory = ini_get('session.save_handler') === 'files' ? session_save_path() : null;
    foreach ($ids as $i => $id) {
        ini_set('session.gc_maxlifetime', $i % SURVIVOR ? $lifetime : LIFETIME);
        fill_one($id, $i);
        // PHP's files have an age only.
        if ($i % SURVIVOR && $directory !== null) {
            touch("$directory/sess_$id", time() - 2 * LIFETIME);
        }
    }
    ini_set('session.gc_maxlifetime', LIFETIME);
    if ($directory === null) {
        usleep(($lifetime + 1) * 1_000_000);
    }
    start(str_repeat('c', 32));
    $begin = hrtime(true);
    $removed = session_gc();
    $us = (hrtime(true) - $begin) / 1e3;
    session_destroy();
    $expired = count(array_filter(array_keys($ids), fn(int $i) => $i % SURVIVOR !== 0));
    $row = ['row' => $name, 'op' => 'session_gc', 'us' => [$us / max(1, $removed)],
        'sessions' => count($ids), 'checked' => (int) $removed];
    $wrong = wrong_after($ids);
    if ($removed !== $expired) {
        $wrong = "$removed of $expired sessions were removed";
    }
    return $row + ($wrong === null ? [] : ['wrong' => $wrong]);
}

/** What is wrong with the survivors, and with a sample of those that have expired. */
function wrong_after(array $ids): ?string
{
    [$lost, $risen] = [0, 0];
    $step = max(1, intdiv(count($ids), 1_000));
    foreach ($ids as $i => $id) {
        if ($i % SURVIVOR === 0 || $i % $step === 1 % $step) {
            start($id, ['read_and_close' => true]);
            $lost += $i % SURVIVOR === 0 && !is_whole($i) ? 1 : 0;
            $risen += $i % SURVIVOR !== 0 && $_SESSION !== [] ? 1 : 0;
        }
    }
    return $lost + $risen ? "$lost sessions are lost, and $risen expired ones are there" : null;
}

if (disk_free_space($disk) < 4 * $sessions * FILE_BYTES) {
    fwrite(STDERR, "there is no room for $sessions sessions in " . dirname($disk) . "\n");
    exit(1);
}
$rows = [];
foreach (['files', 'sessile, disk'] as $name) {
    if ($name !== 'files' && !extension_loaded('sessile')) {
        $rows[] = ['row' => "php $name", 'op' => 'session_gc', 'missing' => OURS_MISSING];
        continue;
    }
    $use = fn(string $place) => configure($name === 'files' ? files("$disk/$place")
        : ours("sessile:$disk/engine-$place?durability=none&control=$shm"));
    foreach (array_unique([FEW, $sessions]) as $many) {
        $use("starts-$many");
        $ids = ids($many);
        array_walk($ids, 'fill_one');
        $seconds = max(3, $many / 10_000);
        array_push($rows, ...start_rows("php $name", $ids, $rounds, $calls, $seconds));
    }
    $use('expiring');
    $rows[] = collect_row("php $name", ids($sessions));
}
print_rows($rows, $as_json);
