--TEST--
the lifetime that a request has set for a session holds when it opens the session once more
--FILE--
<?php
require __DIR__ . '/common.inc';
ini_set('session.gc_maxlifetime', '1');
function remembered(): string
{
    start($id = fresh_id());
    $_SESSION['a'] = 1;
    sessile_set_lifetime(100);
    return $id;
}
$ids['started twice'] = remembered();
session_write_close();
session_start();
session_write_close();
$ids['reset'] = remembered();
session_write_close();
session_start();
sessile_set_lifetime(100);
session_reset();
session_write_close();
$ids['regenerated and reset'] = remembered();
session_regenerate_id(true);
$ids['regenerated and reset'] = session_id();
session_write_close();
session_start();
session_reset();
session_write_close();
// Another session of the request has the time of the settings.
$ids['another'] = fresh_id();
start($ids['another']);
$_SESSION['a'] = 1;
session_write_close();
$last = microtime(true);
while (microtime(true) - $last < 1.1) {
    usleep(100_000);
}
foreach ($ids as $what => $id) {
    echo $what, ': ', json_encode(stored($id)), "\n";
}
?>
--EXPECT--
started twice: {"a":1}
reset: {"a":1}
regenerated and reset: {"a":1}
another: []
