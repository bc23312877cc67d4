--TEST--
a limit of php.ini holds for a path with a fragment, too
--INI--
sessile.payload_limit=200
--FILE--
<?php
require __DIR__ . '/common.inc';
foreach (['memory:', 'memory:#shop'] as $path) {
    session_save_path($path);
    start(fresh_id());
    $_SESSION['a'] = str_repeat('x', 500);
    @session_write_close();
    var_dump(sessile_counters()['too_large']);
}
?>
--EXPECT--
int(1)
int(1)
