--TEST--
a new id takes the session with it; the old one shows it as it was before for the grace, or nothing
--FILE--
<?php
require __DIR__ . '/common.inc';
function renewed(bool $delete): array
{
    start(fresh_id());
    $old = session_id();
    $_SESSION['a'] = 1;
    session_write_close();
    start($old);
    $_SESSION['a'] = 2;
    var_dump(session_regenerate_id($delete));
    $new = session_id();
    $_SESSION['b'] = 3;
    // A request with the old id waits for the same lock.
    $other = child('ini_set("sessile.lock_wait", "0.1"); var_dump(@start($argv[1]) && session_id() === $argv[1]);', $new);
    echo finish($other), "\n";
    session_write_close();
    return [$old, $new];
}
foreach (['0', '1'] as $strict) {
    ini_set('session.use_strict_mode', $strict);
    [$old, $new] = renewed(false);
    echo json_encode([$old !== $new, stored($old), stored($new)]), "\n";
    // A parallel request of the same page, with the old id: it sees the session, and changes nothing.
    start($old);
    $_SESSION['c'] = 4;
    session_write_close();
    echo json_encode([stored($old), stored($new)]), "\n";

    // After a log-out it sees nothing.
    start($new);
    session_destroy();
    echo json_encode([stored($old), stored($new)]), "\n";

    // A late request gets no other id.
    [$old, $new] = renewed(false);
    start($old);
    var_dump(@session_regenerate_id());
    @session_write_close();
    echo json_encode([stored($old), stored($new)]), "\n";

    [$old, $new] = renewed(true);
    echo json_encode([stored($old), stored($new)]), "\n";

    ini_set('sessile.grace', '0');
    [$old, $new] = renewed(false);
    echo json_encode([stored($old), stored($new)]), "\n";
    ini_restore('sessile.grace');
}
?>
--EXPECT--
bool(true)
bool(false)
[true,{"a":1},{"a":2,"b":3}]
[{"a":1},{"a":2,"b":3}]
[[],[]]
bool(true)
bool(false)
bool(false)
[{"a":1},{"a":2,"b":3}]
bool(true)
bool(false)
[[],{"a":2,"b":3}]
bool(true)
bool(false)
[[],{"a":2,"b":3}]
bool(true)
bool(false)
[true,{"a":1},{"a":2,"b":3}]
[{"a":1},{"a":2,"b":3}]
[[],[]]
bool(true)
bool(false)
bool(false)
[{"a":1},{"a":2,"b":3}]
bool(true)
bool(false)
[[],{"a":2,"b":3}]
bool(true)
bool(false)
[[],{"a":2,"b":3}]
