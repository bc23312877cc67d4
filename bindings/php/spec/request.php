<?php
// The session of one request, driven by run.php: a JSON array on each line of the input is a
// command, and the line that answers is [result, warnings].

ob_start(); // after the first output PHP takes no id and no setting of a session
ini_set('session.use_cookies', '0');
ini_set('session.cache_limiter', '');
$warnings = '';
set_error_handler(function ($level, $text) use (&$warnings) {
    $warnings .= "$text\n";
    return true;
});

/** A text of a case as a session: PHP's own text where it is one. */
function put(string $text): void
{
    $_SESSION = [];
    if (str_contains($text, '|')) {
        session_decode($text);
    } elseif ($text !== '') {
        $_SESSION['text'] = $text;
    }
}

function seen(): string
{
    return $_SESSION['text'] ?? session_encode() ?: '';
}

function start(string $id, bool $unlocked, bool $strict): ?string
{
    if (session_status() === PHP_SESSION_ACTIVE) {
        session_abort();
    }
    ini_set('sessile.read_only', $unlocked ? '1' : '0');
    ini_set('session.use_strict_mode', $strict ? '1' : '0');
    session_id($id);
    if (!session_start()) {
        return null;
    }
    if (session_id() !== $id) {
        session_abort();
        return 'another id';
    }
    return 'sees ' . seen();
}

function destroy(string $id): bool
{
    if (session_status() !== PHP_SESSION_ACTIVE) {
        start($id, true, false);
    }
    return session_destroy();
}

while ($line = fgets(STDIN)) {
    [$command, $arguments] = json_decode($line, true);
    $warnings = '';
    try {
        $result = match ($command) {
            'start' => start(...$arguments),
            'put' => put(...$arguments),
            'save' => session_write_close(),
            'regenerate' => session_regenerate_id(...$arguments) ? session_id() : false,
            'destroy' => destroy(...$arguments),
            'close' => session_status() !== PHP_SESSION_ACTIVE || session_abort(),
        };
    } catch (Error $error) {
        [$result, $warnings] = [false, $warnings . $error->getMessage()];
    }
    fwrite(STDOUT, json_encode([$result, $warnings]) . "\n");
}
