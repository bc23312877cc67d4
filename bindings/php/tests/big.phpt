--TEST--
a session of megabytes is stored; one over the limit is refused loudly, and what was stored stays
--INI--
memory_limit=256M
sessile.payload_limit=10M
--FILE--
<?php
require __DIR__ . '/common.inc';
$id = fresh_id();
start($id);
$_SESSION['a'] = $big = random_bytes(5000000);
var_dump(session_write_close(), stored($id)['a'] === $big);
start($id);
$_SESSION['a'] = str_repeat('x', 11000000);
$saved = session_write_close();
var_dump($saved, stored($id)['a'] === $big, sessile_counters()['too_large']);
?>
--EXPECTF--
bool(true)
bool(true)

Warning: session_write_close(): %s: cannot commit session #%s: the payload is too large (110000%d bytes, limit 10485760 bytes) in %s on line %d

Warning: session_write_close(): Failed to write session data (sessile).%s in %s on line %d
bool(true)
bool(true)
int(1)
