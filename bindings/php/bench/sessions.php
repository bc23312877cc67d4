<?php
// The sessions of a run: ids, content, start.

// 1,400 bytes when serialised.
const TEXT_BYTES = 1360;
// One of this many sessions survives where most expire.
const SURVIVOR = 10;

/** @return list<string> equal for equal seeds */
function ids(int $sessions, int $seed): array
{
    mt_srand($seed);
    $ids = [];
    for ($i = 0; $i < $sessions; $i++) {
        $ids[] = sprintf('%08x%08x%08x%08x', mt_rand(), mt_rand(), mt_rand(), $i);
    }
    return $ids;
}

function text_of(int $i): string
{
    return str_pad((string) $i, TEXT_BYTES, 'x');
}

/** A failed start leaves an array that looks like a session. */
function start(string $id, array $options = []): void
{
    session_id($id);
    if (!session_start($options)) {
        fwrite(STDERR, "a session cannot be started\n");
        exit(1);
    }
}

/** Whether the session that was started last has its content. */
function is_whole(int $i): bool
{
    return ($_SESSION['text'] ?? '') === text_of($i);
}

function fill(array $ids): array
{
    ini_set('session.gc_probability', 0);
    foreach ($ids as $i => $id) {
        fill_one($id, $i);
    }
    return ['filled' => count($ids)];
}

function fill_one(string $id, int $i): void
{
    start($id);
    $_SESSION = ['n' => 0, 'text' => text_of($i)];
    session_write_close();
}
