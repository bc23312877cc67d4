--TEST--
session_create_id() leaves the lock of the open session alone
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['0', '1'] as $strict) {
    ini_set('session.use_strict_mode', $strict);
    start(fresh_id());
    $id = session_id();
    $_SESSION['a'] = 1;
    $new = session_create_id('shop-');
    var_dump(str_starts_with($new, 'shop-'), $new !== session_create_id());
    $other = child('ini_set("sessile.lock_wait", "0.1"); var_dump(@start($argv[1]) && session_id() === $argv[1]);', $id);
    echo finish($other), "\n";
    session_write_close();
    var_dump(stored($id)['a']);
}
?>
--EXPECT--
bool(true)
bool(true)
bool(false)
int(1)
bool(true)
bool(true)
bool(false)
int(1)
