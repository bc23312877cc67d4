<?php
// Expiry and removal of nine of ten sessions; worker.php runs it for gc.php.

/**
 * All sessions but the survivors expire between the returned moment (a Unix time) and a second
 * later. They are created with that expiry: a log on a disk would still hold a longer one. PHP's
 * files store only an age, which is set back.
 */
function fill_expiring(array $ids, int $lifetime, int $margin): array
{
    ini_set('session.gc_probability', 0);
    $files = ini_get('session.save_handler') === 'files' ? session_save_path() : null;
    $begin = microtime(true);
    // The time to fill a sample predicts the time to fill all.
    $sample = max(1, intdiv(count($ids), 500));
    for ($i = 0; $i < $sample * SURVIVOR && $i < count($ids); $i += SURVIVOR) {
        fill_one($ids[$i], $i);
    }
    $moment = time() + 1 + $margin
        + (int) ceil((microtime(true) - $begin) / $sample * count($ids) * 1.3);
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
    return ['removed' => (int) $removed, 'seconds' => $seconds,
        'cpu_seconds' => (cpu_us() - $cpu) / 1e6];
}

/**
 * Counts survivors that are damaged, and expired sessions of a sample of a thousand that are
 * readable.
 */
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
