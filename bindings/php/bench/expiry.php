<?php
// Nine of ten sessions expire, and are removed: what worker.php does for gc.php beside its starts.

/**
 * All but the survivors expire between the moment that is told (a Unix time) and a second later. They are born with that
 * expiry: a session whose life is cut short is another matter, since a log on a disk still has the longer one. PHP's files
 * know no moment of expiry, only an age: theirs is set back.
 */
function fill_expiring(array $ids, int $lifetime, int $margin): array
{
    ini_set('session.gc_probability', 0);
    $files = ini_get('session.save_handler') === 'files' ? session_save_path() : null;
    $begin = microtime(true);
    // So many survivors tell how long it will take.
    $sample = max(1, intdiv(count($ids), 500));
    for ($i = 0; $i < $sample * SURVIVOR && $i < count($ids); $i += SURVIVOR) {
        fill_one($ids[$i], $i);
    }
    $moment = time() + 1 + $margin + (int) ceil((microtime(true) - $begin) / $sample * count($ids) * 1.3);
    foreach ($ids as $i => $id) {
        $expires = $i % SURVIVOR !== 0 && $files === null;
        ini_set('session.gc_maxlifetime', $expires ? max(1, $moment - time()) : $lifetime);
        fill_one($id, $i);
        if ($i % SURVIVOR !== 0 && $files !== null) {
            touch("$files/sess_$id", (int) $begin - 2 * $lifetime);
        }
    }
    ini_set('session.gc_maxlifetime', $lifetime);
    return ['moment' => $files === null ? $moment : time() - 1];
}

/** A collection to the end. */
function collect(): array
{
    ini_set('session.gc_probability', 0);
    $cpu = cpu_us();
    $begin = hrtime(true);
    session_id(str_repeat('c', 32));
    session_start();
    $removed = session_gc();
    $seconds = (hrtime(true) - $begin) / 1e9;
    session_destroy();
    return ['removed' => (int) $removed, 'seconds' => $seconds, 'cpu_seconds' => (cpu_us() - $cpu) / 1e6];
}

/** Whether every survivor is whole, and how many of a thousand others can still be read. */
function survivors(array $ids): array
{
    ini_set('session.gc_probability', 0);
    $lost = 0;
    $risen = 0;
    $step = max(1, intdiv(count($ids), 1_000));
    foreach ($ids as $i => $id) {
        $lives = $i % SURVIVOR === 0;
        if ($lives || $i % $step === 1 % $step) {
            start($id, ['read_and_close' => true]);
            $lost += $lives && !is_whole($i) ? 1 : 0;
            $risen += !$lives && isset($_SESSION['text']) ? 1 : 0;
        }
    }
    return ['lost' => $lost, 'risen' => $risen];
}
